# redis with its append-only file synced at every write: killed, started again, rewritten, asked for everything.
cat > conf <<C
dir $D
appendonly yes
appendfsync always
save ""
daemonize no
logfile $D/log
port 0
unixsocket $OUTSIDE/redis.sock
enable-debug-command yes
C
ask() { redis-cli -s "$OUTSIDE/redis.sock" "$@"; }
start() { redis-server conf & server=$!; until ask ping > /dev/null 2>&1; do kill -0 $server || break; done; }
start; for i in $(seq 200); do ask set key$i value$i; done | sort | uniq -c
seq 5000 | sed 's/.*/lpush list &/' | ask | tail -1; ask hset h a 1 b 2; ask save
kill -9 $server; wait $server 2> /dev/null; start
ask dbsize; ask get key77; ask llen list; ask lindex list 0; ask debug digest
ask bgrewriteaof; until ask info persistence | grep -q 'aof_rewrite_in_progress:0'; do sleep 0.1; done; ask info persistence | tr -d '\r' | grep -E 'aof_last_(bgrewrite|write)_status|aof_enabled'
seq 1000 | sed 's/.*/incrby counter &/' | ask | tail -1; ask bgsave; until ask info persistence | grep -q 'rdb_bgsave_in_progress:0'; do sleep 0.1; done; ask info persistence | tr -d '\r' | grep rdb_last_bgsave_status
kill -9 $server; wait $server 2> /dev/null; start; ask get counter; ask llen list; ask debug digest; ask shutdown; wait $server; echo $?
redis-check-aof appendonlydir/*.manifest | tail -1; redis-check-rdb dump.rdb | tail -1 | cut -d' ' -f2-; ls . appendonlydir; rm -rf *
