# fio writes with each of its plain engines, and verifies what it reads back.
for engine in psync sync vsync pvsync posixaio; do
    for pattern in write randwrite randrw; do
        fio --name=$engine-$pattern --ioengine=$engine --rw=$pattern --bs=4k --size=4m --iodepth=8 --verify=crc32c --do_verify=1 \
            --verify_fatal=1 --randseed=7 --directory=. --fallocate=none --minimal > said 2>&1 && echo $engine $pattern verified || cat said
    done
done
fio --name=blocks --ioengine=psync --rw=randwrite --bsrange=512-64k --bs_unaligned --size=8m --verify=sha256 --verify_interval=512 --randseed=7 --minimal --numjobs=2 > said 2>&1; echo $?
fio --name=synced --ioengine=sync --rw=write --bs=4k --size=1m --fsync=1 --end_fsync=1 --verify=md5 --minimal > said 2>&1; echo $?
fio --name=allocated --ioengine=psync --rw=randwrite --bs=16k --size=8m --fallocate=posix --verify=meta --verify_dump=1 --randseed=3 --minimal > said 2>&1; echo $?
fio --name=mapped --ioengine=psync --direct=1 --rw=randwrite --bs=4k --size=2m --verify=xxhash --randseed=3 --minimal > said 2>&1; echo $?
rm -f said; ls; rm -f *
