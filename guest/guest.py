"""A guest with persistent memory: QEMU, an emulated NVDIMM, Debian's kernel, and the host's files read-only.

The NVDIMM is a file of the host's. In the guest it is formatted once, with ext4, and mounted with DAX; who starts a guest with the
same file again finds what the last one left. The processor is emulated (TCG), with no caches of its own: what a program stored
is in the file when it stored it. So a guest that is killed proves what is there behind a loss of power as far as the kernel and the file
system go; that nothing counts on a line that was not flushed is for the crash explorer to prove.
"""

import gzip
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
MODULES = ['virtio_pci', '9pnet_virtio', '9p', 'nfit', 'nd_pmem', 'dax_pmem', 'device_dax', 'virtio_blk', 'ext4', 'fuse']
NVDIMM_BYTES = 4 << 30
DISK_BYTES = 1 << 30
BUSYBOX = '/bin/busybox'


class Failed(Exception):
    """Something did not go as it must; the message is for whoever runs this."""


def kernel():
    """The newest kernel installed, and its release."""
    found = sorted(pathlib.Path('/boot').glob('vmlinuz-*-amd64'), key=lambda path: path.stat().st_mtime)
    if not found:
        raise Failed('no kernel in /boot (the package linux-image-amd64)')
    return found[-1], found[-1].name.removeprefix('vmlinuz-')


def modules(release):
    """Files of the modules a guest needs, each behind those it builds on."""
    files = {}
    for module in MODULES:
        shown = subprocess.run(['/sbin/modprobe', '-S', release, '-C', '/dev/null', '--show-depends', module],
                               capture_output=True, text=True)
        if shown.returncode != 0:
            raise Failed(f'modprobe knows no {module}: {shown.stderr.strip()}')
        files.update((line.split()[1], None) for line in shown.stdout.splitlines() if line.startswith('insmod '))
    return list(files)


def libraries(program):
    """What a program is linked to, if it is: Debian has a busybox of either kind."""
    said = subprocess.run(['ldd', program], capture_output=True, text=True).stdout
    return [pathlib.Path(word) for word in said.split() if word.startswith('/')]


def make_initramfs(folder, release):
    """What the kernel starts with: busybox, modules, the first process. Returns its file."""
    tree = folder / 'initramfs'
    shutil.rmtree(tree, ignore_errors=True)
    (tree / 'bin').mkdir(parents=True)
    shutil.copy2(BUSYBOX, tree / 'bin/busybox')
    for library in libraries(BUSYBOX):
        (tree / library.relative_to('/')).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, tree / library.relative_to('/'))
    shutil.copy2(HERE / 'init', tree / 'init')
    (tree / 'init').chmod(0o755)
    files = modules(release)
    for file in files:
        shutil.copy2(file, tree / pathlib.Path(file).name)
    (tree / 'modules').write_text(''.join(pathlib.Path(file).name + '\n' for file in files))
    names = '\n'.join(str(path.relative_to(tree)) for path in sorted(tree.rglob('*'))) + '\n'
    archive = subprocess.run(['cpio', '-o', '-H', 'newc', '--quiet'], cwd=tree, input=names.encode(),
                             stdout=subprocess.PIPE, check=True).stdout
    packed = folder / 'initramfs.gz'
    packed.write_bytes(gzip.compress(archive, 1))
    return packed


class Guest:
    """One that runs `job`, a file with a shell script, and whose lines are read here; with `nodes`, on so many memory nodes, each with
    one processor. Ends with the `with` at the latest."""

    def __init__(self, folder, job, processors=2, memory_mib=3072, persistence='mem-ctrl', nodes=0):
        self.console = folder / 'console.log'
        vmlinuz, release = kernel()
        initramfs = make_initramfs(folder, release)
        nvdimm, disk = folder / 'nvdimm', folder / 'disk'
        for image, size in ((nvdimm, NVDIMM_BYTES), (disk, DISK_BYTES)):
            if not image.exists():
                with open(image, 'wb') as file:
                    file.truncate(size)
        # A label area would put the region where DAX refuses it.
        self.process = subprocess.Popen([
            'qemu-system-x86_64', '-accel', 'tcg,thread=multi', '-cpu', 'max', '-smp', str(processors),
            '-machine', f'q35,nvdimm=on,nvdimm-persistence={persistence}', '-m', f'{memory_mib}M,slots=2,maxmem=16G',
            '-object', f'memory-backend-file,id=nv0,share=on,mem-path={nvdimm},size={NVDIMM_BYTES}',
            '-device', 'nvdimm,id=nvdimm0,memdev=nv0',
            '-drive', f'if=virtio,format=raw,cache=writeback,file={disk}',
            '-virtfs', 'local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap',
            *(word for node in range(nodes) for word in (
                '-object', f'memory-backend-ram,id=m{node},size={memory_mib // nodes}M',
                '-numa', f'node,nodeid={node},cpus={node},memdev=m{node}')),
            '-kernel', vmlinuz, '-initrd', initramfs,
            '-append', f'console=ttyS0 panic=-1 quiet no_timer_check cuesta.job={job}',
            '-nodefaults', '-no-reboot', '-display', 'none',
            '-serial', f'file:{self.console}', '-serial', 'stdio',
        ], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors='replace')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cut_power()

    def lines(self):
        """What the job says, as it says it, until the guest ends."""
        for line in self.process.stdout:
            yield line.rstrip('\r\n')

    def cut_power(self):
        """It ends at once, in the middle of whatever it does."""
        self.process.kill()
        self.process.wait()


def forget(folder):
    """The next guest has an NVDIMM and a disk that nothing was ever written to."""
    for image in ('nvdimm', 'disk'):
        (folder / image).unlink(missing_ok=True)
