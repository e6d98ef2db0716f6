# Files beyond 4 GiB, mostly holes; names of 255 bytes, of any bytes; deep folders.
truncate -s 5G big; echo end >> big; stat -c '%s %b' big | cut -d ' ' -f 1; tail -c 4 big; dd if=big bs=1 skip=5368709120 count=3 status=none; echo middle | dd of=big bs=1 seek=4294967290 conv=notrunc status=none; dd if=big bs=1 skip=4294967290 count=7 status=none
python3 -c '
import os
f = os.open("big", os.O_RDWR)
print(os.lseek(f, 1 << 20, os.SEEK_DATA) // 4096 * 4096, os.lseek(f, 5 << 30, os.SEEK_HOLE))
os.truncate(f, 1 << 32); print(os.fstat(f).st_size, os.pread(f, 9, (1 << 32) - 6)); os.truncate(f, (1 << 32) + 5); print(os.pread(f, 20, (1 << 32) - 6))'
for length in 254 255 256; do python3 -c 'import sys; open(b"\xff\xfe\n" + b"n" * (int(sys.argv[1]) - 3), "w").write("x")' $length 2>&1 | tail -n 1 | cut -c 1-60; done; ls -b | cut -c 1-30; rm -f ./*nnn*; ls
name=$(printf 'd%.0s' $(seq 200)); (for i in $(seq 30); do mkdir $name; cd $name; done; pwd | wc -c; echo deep > f; cat f; cd ..; ls; mv $name short; cat short/f); find . -name f | wc -c; rm -rf ddd*; ls; cp --sparse=always big sparse; cmp -n 1048576 big sparse; cmp -i 4294900000 big sparse; rm big sparse
