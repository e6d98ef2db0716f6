# Little address space, locked memory, stack, data, few descriptors, and everything locked, at the place $1.
cd $1; echo first > e; exec 3< e 4>> shared
for space in 400000 100000 60000 30000; do
  (ulimit -v $space; echo a > a$space; cat e <&3; cat a$space; cp e c$space; mkdir d$space; ls -d d$space; cat < e; echo $space >&4; echo $(cat e) >> a$space; dd if=/dev/zero of=z$space bs=64k count=40 status=none; cmp -n 2621440 z$space /dev/zero; mv z$space d$space; stat -c '%s %a %h' d$space/z$space; rm d$space/z$space) || echo "[$?] $space"
done
head -c 3 <&3; cat <&3 shared
(ulimit -s 128; cat e; cp e s) || echo "[$?] stack"
(ulimit -d 20000; cat e; cp e data) || echo "[$?] data"
(ulimit -l 0; cat e; cp e l) || echo "[$?] locked"
(ulimit -n 24; for i in 1 2 3; do cat e > n$i; done; cat n1 n2 n3) || echo "[$?] descriptors"
python3 - <<'P'
import ctypes, resource
f = open('late', 'w'); f.write('before '); f.flush()
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
pages = int(open('/proc/self/statm').read().split()[0]) * 4096
soft = pages + (100 << 20)
resource.setrlimit(resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))
f.write('after'); f.close()
print(open('late').read(), open('e').read(), ctypes.CDLL(None).mlockall(1))
open('locked', 'wb').write(b'y' * 5000000); print(len(open('locked', 'rb').read()))
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2); print(open('late').read())
P
ls
