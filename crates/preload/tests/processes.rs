//! What processes make of each other: children that go elsewhere, fork from many threads, locks and signals.

mod common;

use common::{Served, told};

fn python(store: &Served, script: &str) -> String {
    told(&store.command("timeout").args(["60", "python3", "-c", script]).output().expect("runs"))
}

#[test]
fn a_child_that_changes_its_directory_leaves_its_parents_alone() {
    let store = Served::new();
    let script = "
import os, subprocess
os.makedirs('/cuesta/a/b')
def pwd(**more): return subprocess.check_output(['/bin/pwd'], **more).decode().strip()
here = os.getcwd()
assert pwd(cwd='/cuesta/a') == '/cuesta/a' and os.getcwd() == here and pwd() == here
os.chdir('/cuesta/a')
assert pwd(cwd='b') == '/cuesta/a/b' and os.getcwd() == '/cuesta/a' and pwd(cwd='/') == '/'
assert os.getcwd() == '/cuesta/a' and os.listdir('.') == ['b'] and pwd() == '/cuesta/a'
os.chdir('/')
assert pwd(cwd='/cuesta/a/b') == '/cuesta/a/b' and os.getcwd() == '/' and 'cuesta' not in os.listdir('.')
print('done')";
    assert!(python(&store, script).starts_with("done\n"), "{}", python(&store, script));
}
