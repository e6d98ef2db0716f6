# python3's own tests of files and processes, with the working directory and TMPDIR here; each ends as on the disk.
export TMPDIR="$D/tmp"; mkdir tmp cwd; cd cwd
# Not served: notes of changes in a directory.
known=(-i test_fcntl_64_bit)
for test in ${PYTHON_TESTS:-test_os test_posix test_posixpath test_genericpath test_shutil test_tempfile test_threadedtempfile test_io test_file \
    test_fileio test_largefile test_glob test_pathlib test_filecmp test_fileinput test_zipfile test_tarfile test_zipimport test_gzip test_bz2 \
    test_shelve test_dbm test_mailbox test_subprocess test_fcntl test_select test_poll test_selectors test_pty test_import test_runpy \
    test_cmd_line_script test_py_compile test_compileall test_site test_asyncio.test_sendfile}; do
    /usr/bin/python3 -m test -v --timeout 300 "${known[@]}" $test > ../said 2>&1; status=$?
    grep -E '^(FAIL|ERROR): ' ../said
    echo "$test ended with $status"
done
cd ..; rm -rf said cwd tmp
