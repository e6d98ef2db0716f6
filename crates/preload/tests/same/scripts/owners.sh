# chmod, chown, chgrp: recursion, symbolic modes, set-id bits, links, umask, directories that hand on their group.
mkdir -p t/s; touch t/a t/s/b; ln -s a t/l; ln -s ../out t/s/o; touch out; cp /bin/true t/x
chmod -v 600 t/a; chmod -c u+x,g=u,o-rwx t/a; chmod -R go+w t; chmod a=,u=rw t/s/b; chmod +t t/s; chmod g+s t; chmod u=rwx,go=rx t; stat -c '%a %n' t; chmod 755 t; stat -c %a t; chmod 0755 t; chmod 00755 t; stat -c %a t; chmod +X t/a t/s/b t/x; chmod = t/x; chmod u+s,g+s t/x; chmod --reference=t/a t/s/b; chmod 777 t/l; chmod -R u-w,u+w t; chmod 99 t; chmod 644 missing; chmod -x t/s/o; chmod -R 700 t/l
find t out -printf '%p %m %u %g\n' | sort
if [ $(id -u) = 0 ]; then
chown 1:2 t/a; chown -h 3:4 t/l; chown 5 t/x; chown :6 t/x; chown -R 7:8 t/s; chown -RH 9 t; chown -RL 10 t/s; chown --from=10 11 out; chown --reference=t/a t/s/b; chown daemon: out; chgrp 12 t; chgrp -R games t/s; chown nobody.nogroup t/x; chown nosuchuser t; chown 1 missing; chown -v 1:1 t/a; chown -c 1:1 t/a
chmod 6755 t/x; chown 0:0 t/x; stat -c '%a %u' t/x; chmod 6755 t/x; echo >> t/x; stat -c %a t/x; chmod 2775 t; chown 1:50 t; touch t/new; mkdir t/newdir; stat -c '%a %g %n' t/new t/newdir; cp t/a t/copied; stat -c %g t/copied
fi
(umask 077; touch u1; mkdir u2; (umask 0; touch u3; mkdir u4; mkfifo u5); (umask 777; touch u6; echo > u7)); stat -c '%a %n' u?; umask; umask -S; mkdir -m u=rwx,g=,o=t u8; install -d -m 1700 u9; mkdir -p -m 700 ua/ub/uc; find ua -printf '%m %p\n'
(umask 027; cp t/a ca; cp -r t ct; tar cf - t | tar xf - -C ct; mkdir -p m/n; ln -s x m/s; sed -n w\ m/w out); find ca ct m -printf '%m %p\n' | sort
