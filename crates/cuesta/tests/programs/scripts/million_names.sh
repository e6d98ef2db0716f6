# A directory with a million names.
mkdir many; python3 - <<'P'
import os
os.chdir('many')
for number in range(1000000): os.close(os.open(f'name-{number}', os.O_CREAT | os.O_WRONLY, 0o644))
names = set(os.listdir('.')); print(len(names), 'name-0' in names, 'name-999999' in names, 'name-1000000' in names)
print(sum(1 for entry in os.scandir('.') if entry.is_file()), os.stat('name-500000').st_size)
for number in range(0, 1000000, 2): os.unlink(f'name-{number}')
print(len(os.listdir('.')), os.path.exists('name-4'), os.path.exists('name-5'))
P
ls many | wc -l; find many -name 'name-99999*' | sort; rm -rf many
