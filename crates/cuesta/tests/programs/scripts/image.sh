# An ext4 image in a file, mounted by a loop device: by the kernel, which reads and writes the file itself.
truncate -s 24M image; mkfs.ext4 -q -F -b 4096 image; mkdir in; trap 'umount -l in 2> /dev/null' EXIT
mount -o loop image in; seq 20000 > in/numbers; mkdir in/folder; cp /bin/ls in/folder; ln in/numbers in/folder/again; sync; rm in/folder/again
in/folder/ls in/folder; umount in; e2fsck -fn image > /dev/null 2>&1; echo $?
mount -o loop,ro image in; sha256sum < in/numbers; cmp /bin/ls in/folder/ls; touch in/no 2> /dev/null; umount in
cp image copy; cmp image copy; rm image copy
