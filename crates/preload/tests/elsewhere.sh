# What programs do away from the store: processes, threads, signals, faults. Prints nothing that varies.
set -u
ls / | wc -l; (echo hi; cat /etc/hostname)
python3 -c "import subprocess;print(subprocess.check_output(['ls','/']).count(b'\n'))"
python3 - <<'P'
import threading,subprocess,os,tempfile,signal,time
def w(i):
    for k in range(25):
        assert subprocess.run(['/bin/echo',str(k)],capture_output=True).stdout==b'%d\n'%k
        with tempfile.TemporaryDirectory() as d:
            open(d+'/x','w').write('y'*10000); assert len(open(d+'/x').read())==10000
ts=[threading.Thread(target=w,args=(i,)) for i in range(8)]
[t.start() for t in ts];[t.join() for t in ts]
hits=[]
signal.signal(signal.SIGUSR1,lambda *a:hits.append(1))
os.kill(os.getpid(),signal.SIGUSR1); print('sig',hits, signal.getsignal(signal.SIGUSR1)!=None)
for i in range(100):
    p=os.fork()
    if p==0: os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(p,0)[1])==3
print("py ok")
P
perl -e 'system("true")==0 or die; open F,"<","/etc/passwd"; my @l=<F>; print scalar(@l)>3?"perl ok\n":"bad\n"; $SIG{ALRM}=sub{print "alrm\n"}; alarm 1; select(undef,undef,undef,3); my $p=fork(); if(!$p){exit 5} waitpid $p,0; print $?>>8,"\n"'
d=$(mktemp -d); cd $d; git init -q . && echo a>a && git add a && git -c user.email=a@b -c user.name=n commit -qm x && git log --oneline | wc -l
node -e 'const fs=require("fs"),cp=require("child_process");fs.writeFileSync("n","x");console.log(fs.readFileSync("n","utf8"),cp.execSync("echo sub").toString().trim(),process.version.length>2)'
sqlite3 t.db 'create table t(a); insert into t values(1),(2); select sum(a) from t;'
perl -e 'system(q(kill -SEGV $$)); print "segv ", $? & 127, "\n"'
perl -e 'system(q(exec python3 -c "import ctypes; ctypes.string_at(0)")); print "segv ", $? & 127, "\n"'
python3 -X faulthandler -c 'import ctypes; ctypes.string_at(0)' 2>&1 | head -1
timeout 1 sleep 5; echo "timeout $?"
tar cf x.tar a n && tar tf x.tar; cp a b; mv b c; rm c; sort /etc/passwd | head -1; find . -name a; dd if=/dev/zero of=z bs=1k count=3 2>/dev/null; stat -c %s z
python3 -c 'import os
try: os.open(b"/x"*3000,0)
except OSError as e: print(e.errno)
import ctypes; l=ctypes.CDLL(None,use_errno=True); print(l.open(ctypes.c_void_p(1),0), ctypes.get_errno(), l.syscall(2,ctypes.c_void_p(1),0), ctypes.get_errno())'
gcc -x c -o hello - <<'C'
#include <stdio.h>
int main(){puts("compiled");}
C
./hello
