# What programs do with files, processes and descriptors in directory $1. Prints nothing that varies.
D=$1; mkdir -p $D/w; 
echo hello > $D/w/a; cat $D/w/a; echo more >> $D/w/a; cat $D/w/a; wc -c < $D/w/a
(echo one; echo two; sh -c 'echo three'; ls -d / ) > $D/w/sub; cat $D/w/sub
for i in 1 2 3; do echo line $i; /bin/echo ext $i; done > $D/w/loop; cat $D/w/loop
cp $D/w/a $D/w/b; cmp $D/w/a $D/w/b && echo same; mv $D/w/b $D/w/c; ls $D/w; rm $D/w/c; ls $D/w
cp /etc/passwd $D/w/p; sort $D/w/p -o $D/w/p.s; head -1 $D/w/p.s
dd if=/dev/urandom of=$D/w/r bs=64k count=20 2>/dev/null; cp $D/w/r /tmp/r.$$; cmp $D/w/r /tmp/r.$$ && echo ddok; stat -c '%s %a %F' $D/w/r
mkdir $D/w/d1; (cd $D/w/d1; pwd | sed s#$D#D#; echo x > rel; ls; cat ./rel ../a; mkdir -p e/f; cd e/f; pwd| sed s#$D#D#; cd ../..; find . | sort; cd /; pwd)
ln -s a $D/w/sl; readlink $D/w/sl; cat $D/w/sl; ln $D/w/a $D/w/hl; stat -c %h $D/w/a
ln -s $D/w/d1 $D/abs; python3 -c 'import os,sys; D=sys.argv[1]; A=D+"/abs"; open(D+"/m","w").close(); os.rename(D+"/m",A+"/m"); os.rename(A+"/m",A+"/../../n"); os.link(D+"/n",A+"/n"); os.link(A+"/n",A+"/../o"); print(os.stat(D+"/w/o").st_nlink)' $D; rm $D/abs/n $D/abs $D/n $D/w/o
cp -r $D/w /tmp/cw.$$; diff -r $D/w /tmp/cw.$$ && echo diffok; rm -rf /tmp/cw.$$
tar cf $D/w.tar -C $D w; tar tf $D/w.tar | sort | head -3
python3 - $D <<'P'
import os,sys,sqlite3,subprocess,shutil,tempfile,mmap
D=sys.argv[1]
f=open(D+'/py','w+'); f.write('abc'*1000); f.seek(0); print(len(f.read())); f.close()
fd=os.open(D+'/py',os.O_RDWR); print(os.pread(fd,5,1), os.lseek(fd,0,2)); 
d=os.dup(fd); os.lseek(d,10,0); print(os.lseek(fd,0,1)); os.close(d); os.close(fd)
print(sorted(os.listdir(D)))
try: os.open(D+'/no',os.O_RDONLY)
except OSError as e: print(e.errno)
for n in (4095,4096,9000):
    try: os.symlink('t'*n,D+'/long%d'%n); os.unlink(D+'/long%d'%n); print(n)
    except OSError as e: print(n,e.errno)
for t,n in (('','n'*5000),('t'*5000,'n'*5000),('t','n'*5000),('','x')):
    try: os.symlink(t,D+'/'+n)
    except OSError as e: print(len(t),len(n),e.errno)
try: os.rename(D+'/py','/proc/zz')
except OSError as e: print(e.errno)
c=sqlite3.connect(D+'/t.db'); c.execute('create table if not exists t(a,b)')
for i in range(50): c.execute('insert into t values(?,?)',(i,'x'*i)); c.commit()
print(c.execute('select count(*),sum(a) from t').fetchone()); print(c.execute('pragma journal_mode').fetchone()); c.close()
p=os.fork()
if p==0:
    open(D+'/child','w').write('from child'); os._exit(0)
os.waitpid(p,0); print(open(D+'/child').read())
out=open(D+'/out','w'); subprocess.run(['/bin/echo','spawned'],stdout=out); subprocess.run(['sh','-c','echo again; echo err >&2'],stdout=out,stderr=subprocess.STDOUT); out.close(); print(open(D+'/out').read())
fd=os.open(D+'/inh',os.O_RDWR|os.O_CREAT); os.write(fd,b'parent '); pid=os.fork()
if pid==0:
    os.write(fd,b'child '); os._exit(0)
os.waitpid(pid,0); os.write(fd,b'parent2'); os.close(fd); print(open(D+'/inh').read())
m=mmap.mmap(os.open(D+'/inh',os.O_RDONLY),0,flags=mmap.MAP_PRIVATE,prot=mmap.PROT_READ); print(m[:6])
with tempfile.NamedTemporaryFile(dir=D) as t: t.write(b'q'); t.flush(); print(os.path.getsize(t.name))
shutil.copytree(D+'/w',D+'/w2',symlinks=True); print(sorted(os.listdir(D+'/w2'))[:3])
os.utime(D+'/py',(1,2)); s=os.stat(D+'/py'); print(s.st_mtime,s.st_atime); os.chmod(D+'/py',0o600); print(oct(os.stat(D+'/py').st_mode))
print(os.access(D+'/py',os.R_OK), os.path.exists(D+'/nope'))
import threading
def w(i):
    for k in range(50):
        n=f'{D}/th{i}'; open(n,'w').write(str(k)); assert open(n).read()==str(k); os.unlink(n)
ts=[threading.Thread(target=w,args=(i,)) for i in range(8)]; [t.start() for t in ts]; [t.join() for t in ts]; print('threads ok')
P
sqlite3 $D/s.db 'create table t(a); insert into t values(1),(2); select sum(a) from t;'
(cd $D && git init -q g && cd g && echo a>a && git add a && git -c user.email=a@b -c user.name=n commit -qm x && git log --oneline | wc -l && git status --short | wc -l)
node -e 'const fs=require("fs"),cp=require("child_process");const D=process.argv[1];fs.writeFileSync(D+"/n","x");console.log(fs.readFileSync(D+"/n","utf8"),cp.execSync("cat "+D+"/n").toString(),fs.readdirSync(D).length>3)' $D
perl -e 'open F,">",$ARGV[0]."/pl" or die; print F "perl\n"; close F; system("cat $ARGV[0]/pl")' $D
printf '#!/bin/sh\necho script $1\n' > $D/scr; chmod +x $D/scr; $D/scr arg; cp /bin/echo $D/echo; $D/echo binary
exec 7> $D/seven; echo to7 >&7; exec 8>&7 7>&-; echo to8 >&8; exec 8>&-; cat $D/seven
cat < $D/w/a | tr a-z A-Z; echo here > $D/h; read x < $D/h; echo $x
grep -r hello $D/w | wc -l; du -s $D/w >/dev/null && echo du; df $D >/dev/null && echo df
env -i /bin/cat $D/w/a
bash -c "cd $D; ls w | head -2; exec cat w/a"
rm -rf $D/w2 $D/g; ls $D
