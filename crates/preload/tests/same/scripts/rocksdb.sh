# RocksDB's db_bench: filled with a sync a write, read at random with checksums, overwritten, compacted.
export TEST_TMPDIR="$D"
b() { db_bench --db=db --num=4000 --seed=7 --verify_checksum=1 --mmap_read=0 --mmap_write=0 --use_existing_db=${old:-0} "$@" 2>&1 | grep -E 'found|rror|orrupt|fail' | sed 's/.*(\(.*found\).*/\1/'; echo ${PIPESTATUS[0]}; }
b --benchmarks=fillrandom,readrandom,readseq,readreverse
old=1 b --benchmarks=readrandom,overwrite,compact,readrandom,seekrandom,deleterandom,readmissing
old=1 b --benchmarks=overwrite,verifychecksum,readrandom --value_size=1000
# It takes keys from a thousandth of what it is told.
b --num=3000000 --writes=3000 --benchmarks=fillsync
old=1 b --num=3000 --benchmarks=readrandom,verifychecksum
b --benchmarks=fillseq,compact,readseq --compression_type=none --write_buffer_size=200000 --use_direct_reads=1 --use_direct_io_for_flush_and_compaction=1
ls db | sed 's/[0-9]*//g' | sort -u; rm -r db
