# sqlite3: every journal mode that needs no shared memory, transactions, rollback, a hot journal, vacuum, backup.
for mode in delete truncate persist memory off; do for sync in full; do
sqlite3 $mode-$sync.db "pragma journal_mode=$mode; pragma synchronous=$sync; create table t(a integer primary key, b); with recursive c(x) as (values(1) union all select x+1 from c where x<1000) insert into t select x, hex(x*x) from c; begin; delete from t where a%3=0; rollback; begin; update t set b=b||'u' where a%7=0; commit; savepoint s; delete from t; rollback to s; release s; select count(*), sum(length(b)) from t; pragma integrity_check;"
done; done; sqlite3 delete-full.db .dump > dump.sql; wc -l < dump.sql; sqlite3 restored.db < dump.sql; sqlite3 restored.db 'select count(*) from t; create index i on t(b); analyze; vacuum; pragma integrity_check; pragma page_count' ; sqlite3 restored.db ".backup copy.db" ".clone cloned.db"; sqlite3 copy.db 'select sum(a) from t'; sqlite3 restored.db "vacuum into 'into.db'"; sqlite3 into.db 'pragma quick_check'
for i in $(seq 15); do echo "insert into t(b) values($i);"; done | sqlite3 delete-full.db; sqlite3 delete-full.db "attach 'persist-full.db' as p; begin; insert into t(b) select b from p.t; update p.t set b=a; commit; select count(*) from t; select max(b) from p.t"; sqlite3 -readonly delete-full.db 'insert into t values(1,1)' 2>&1; sqlite3 missing/x.db 'select 1; create table t(x)' 2>&1; chmod 444 into.db; sqlite3 into.db 'delete from t where 0' 2>&1 | cut -c1-20; sqlite3 :memory: ".import dump.sql x" 2>&1 | tail -1 | cut -c1-20; sqlite3 '' 'create table t(x); select count(*) from t'; sqlite3 file:delete-full.db?mode=ro 'select min(a) from t'; sqlite3 a.db "pragma page_size=65536; pragma auto_vacuum=full; create table b(x blob); insert into b values(zeroblob(3000000)); insert into b values(randomblob(10)); delete from b where length(x)=10; select length(x) from b; delete from b; pragma page_count" ".archive" 2>/dev/null; sqlite3 ar.sqlar -Ac dump.sql restored.db; sqlite3 ar.sqlar -At; mkdir x; (cd x; sqlite3 ../ar.sqlar -Ax; cmp dump.sql ../dump.sql); sqlite3 big.db "pragma cache_size=10; pragma temp_store=file; pragma mmap_size=0; create table t(a,b); with recursive c(x) as (values(1) union all select x+1 from c where x<20000) insert into t select x, printf('%032d', (x*7919)%20000) from c; create index i on t(b); select b from t order by b||a limit 1; select count(distinct b) from t; begin exclusive; delete from t where a%2; commit; vacuum; pragma integrity_check"
python3 - <<'P'
import os, signal, sqlite3
c = sqlite3.connect('hot.db', isolation_level=None); c.execute('create table t(a, b)'); c.executemany('insert into t values(?, ?)', ((i, 'x' * 500) for i in range(3000)))
c.close()
child = os.fork()
if child == 0:
    c = sqlite3.connect('hot.db', isolation_level=None); c.execute('pragma cache_size=5'); c.execute('begin'); c.execute("update t set b='changed'||b"); c.execute('delete from t where a<1000')
    os.kill(os.getpid(), signal.SIGKILL)
os.wait(); print(os.path.exists('hot.db-journal'))
c = sqlite3.connect('hot.db'); print(c.execute("select count(*), sum(b like 'changed%') from t").fetchone(), c.execute('pragma integrity_check').fetchone(), os.path.exists('hot.db-journal'))
a, b = sqlite3.connect('hot.db', timeout=0), sqlite3.connect('hot.db', timeout=0)
a.execute('begin immediate')
try: b.execute('begin immediate')
except sqlite3.OperationalError as error: print(error)
a.rollback(); b.execute('begin exclusive')
try: a.execute('select * from t').fetchone()
except sqlite3.OperationalError as error: print(error)
b.rollback(); print(a.execute('select count(*) from t').fetchone()); b.execute('vacuum'); b.backup(sqlite3.connect('backup.db'))
P
sqlite3 backup.db 'pragma integrity_check; select count(*) from t'; sqlite3 hot.db '.recover' | wc -l; sqlite3 hot.db .schema; sqlite3 hot.db '.mode csv' '.once out.csv' 'select a from t limit 3'; cat out.csv; ls; rm -f a.db ar.sqlar *-journal # (headers of journals are salted)
