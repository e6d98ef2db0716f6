"""Where logs and content lie on a machine with two memory nodes, each with one processor of the same number. Run by a guest's job, as
root: nodes.py CUESTA STORE. What is wrong is told in a line, the rest in a last one.

The daemon runs on node 0 throughout, which is where what it touches first would lie.
"""

import json
import os
import re
import subprocess
import sys

from hanging import tell_after

CUESTA, STORE = sys.argv[1:3]
FILE_BYTES = 8 << 20
free_on_nodes = []
# Asking how full it is has what was written digested.
PROGRAM = f"""
import os
file = os.open('/cuesta/' + os.environ['NAME'], os.O_RDWR | os.O_CREAT)
for at in range(0, {FILE_BYTES}, 64 << 10): os.pwrite(file, os.urandom(64 << 10), at)
print(os.getpid(), flush=True)
input()
os.statvfs('/cuesta')
os.pread(file, {FILE_BYTES}, 0)
print('read', flush=True)
input()
"""


def expect(what, found, expected):
    if found != expected:
        sys.exit(print(f'wrong: {what}: {found!r}, not {expected!r}', flush=True))


def on(node, *command, **options):
    return subprocess.Popen(['taskset', '-c', str(node), CUESTA, *command], text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, **options)


def ask(*command):
    """Of a daemon that begins with it, if none runs."""
    asked = on(0, *command)
    answer = asked.communicate()[0]
    expect(' '.join(command), asked.returncode, 0)
    return answer


def pages(pid, kind):
    """The nodes which the memory of such files lies on that a process has mapped and touched, and how many files it is."""
    with open(f'/proc/{pid}/numa_maps') as maps:
        lines = [line for line in maps if f'/{kind}-' in line]
    files = {re.search(r' file=(\S+)', line)[1] for line in lines if re.search(r' N\d+=', line)}
    return {int(node) for line in lines for node in re.findall(r' N(\d+)=', line)}, files


def run_on(node, name):
    program = on(node, 'run', '--store', STORE, '--', 'python3', '-c', PROGRAM, env={**os.environ, 'NAME': name})
    pid = int(program.stdout.readline())
    sessions = json.loads(ask('status', '--json', STORE))['sessions']
    expect('status', [session['node'] for session in sessions if session['pid'] == pid], [node])
    nodes, files = pages(pid, 'seg')
    expect(f'the log of a program on node {node} ({len(files)} segments)', (nodes, len(files) > 1), ({node}, True))
    program.stdin.write('\n')
    program.stdin.flush()
    expect('the program read', program.stdout.readline(), 'read\n')
    nodes, arenas = pages(pid, 'arena')
    expect(f'the content of a program on node {node}', (nodes, len(arenas) > 0), ({node}, True))
    program.communicate('\n')
    expect('the program ended', program.returncode, 0)
    return files


def memory_of(node):
    with open(f'/sys/devices/system/node/node{node}/meminfo') as lines:
        return next(int(line.split()[3]) << 10 for line in lines if 'MemFree:' in line)


def fill(node, folder):
    """Takes what memory a node has, until what is wanted from there comes from another one."""
    os.makedirs(folder)
    subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size=100%,mpol=prefer:{node}', 'filling', folder], check=True)
    with open(f'{folder}/filling', 'wb') as file:
        at, left = 0, memory_of(node)
        while True:
            os.posix_fallocate(file.fileno(), at, 16 << 20)
            at, before, left = at + (16 << 20), left, memory_of(node)
            if before - left < 4 << 20:
                return


def await_memory(nodes):
    """Until each of these nodes has memory at hand for a file, while programs on both write: a node that had none is asked again
    when something is taken."""
    global free_on_nodes
    while True:
        for node in (0, 1):
            ended = on(node, 'run', '--store', STORE, '--', 'touch', '/cuesta/touched').wait()
            expect('a program that wrote ended', ended, 0)
        free_on_nodes = json.loads(ask('status', '--json', STORE))['free_on_nodes']
        enough = {node for node, blocks in free_on_nodes if blocks * 4096 > 2 * FILE_BYTES}
        if enough >= nodes:
            return


tell_after(300, lambda: f'free on nodes: {free_on_nodes}')
ask('mkfs', STORE, '--medium', 'memory', '--nvm', '512M')
# A node that has no memory when some is wanted from there has it later.
fill(1, '/run/filled')
await_memory({0})
expect('a node without memory gives some', [node for node, blocks in free_on_nodes if blocks * 4096 > FILE_BYTES], [0])
subprocess.run(['umount', '/run/filled'], check=True)
await_memory({0, 1})
logs = [run_on(node, name) for node, name in [(1, 'a'), (0, 'b'), (1, 'c')]]
expect('what ended leaves its log to who is on its node', (logs[0] & logs[1], bool(logs[0] & logs[2])), (set(), True))
ask('stop', STORE)
# Where they lie the next daemon sees.
await_memory({0, 1})
found = run_on(1, 'd')
expect('segments that are found are taken by their node', bool(found & (logs[0] | logs[2])), True)
ask('stop', STORE)
ask('fsck', STORE)
print(f'nodes: the logs and the content of programs on either ({len(found)} segments) lie there', flush=True)
os._exit(0)
