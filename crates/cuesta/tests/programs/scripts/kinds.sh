# Devices, pipes and sockets.
mknod null c 1 3; mknod zero c 1 5; mknod block b 7 255; mknod pipe p; ls -l null zero block pipe | cut -d ' ' -f 1,5,6; echo x > null; head -c 5 zero | od -c; stat -c '%F %t %T' null zero block pipe
(cat pipe & echo through > pipe; wait); mkfifo -m 600 other; (exec 3<> other; echo kept >&3; read x <&3; echo $x); timeout 0.2 cat other; echo $?
cat > $OUTSIDE/talk.py <<'P'
import os, socket, stat
server = socket.socket(socket.AF_UNIX); server.bind('socket'); server.listen()
print(stat.S_ISSOCK(os.stat('socket').st_mode))
client = socket.socket(socket.AF_UNIX); client.connect('socket'); peer, _ = server.accept()
client.send(b'word'); print(peer.recv(9))
try: open('socket')
except OSError as error: print(error.errno)
os.rename('socket', 'elsewhere'); again = socket.socket(socket.AF_UNIX); again.connect('elsewhere')
server.close(); peer.close()
try: socket.socket(socket.AF_UNIX).connect('elsewhere')
except OSError as error: print(error.errno)
P
python3 $OUTSIDE/talk.py; cp -a . $OUTSIDE/copied; ls -l $OUTSIDE/copied | cut -d ' ' -f 1; mv null moved; ln zero again; stat -c '%h %t' again; rm zero block other elsewhere
