//! What this process has forbidden itself by Landlock, as far as it concerns the store.
//!
//! The kernel holds the program's rulesets, and judges what is outside the store. Of a rule about a directory of the store it knows nothing,
//! so rules are kept here as well, and LibFS judges by them ([`cuesta_libfs::Confinement`]). The program's children have them, and what
//! it executes inherits them ([`crate::process::inheritance::table`]).
//!
//! A ruleset is known by a copy of its descriptor: the program may duplicate its own, or close it and get the number for another file. One
//! that is not known, as one that another process sent, allows nothing in the store. Of several threads, one that confines itself confines all.

use crate::descriptors;
use crate::descriptors::kernel::{self, borrow};
use crate::users::ruleset::Ruleset;
use crate::users::thread_credentials;
use crate::{arch, thread};
use cuesta_format::InodeNumber;
use cuesta_libfs::{Confinement, Layer, Rights};
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many rulesets are known at a time: most programs make one.
const KNOWN_MAX: usize = 16;

/// What `kcmp` is asked: whether two descriptors are of one file.
const KCMP_FILE: usize = 0;

static RULESETS: Mutex<Vec<Ruleset>> = Mutex::new(Vec::new());

static CURRENT: Mutex<Option<Arc<Confinement>>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What calls of this process are judged by.
pub fn current() -> Option<Arc<Confinement>> {
    if thread::is_vforked() {
        // SAFETY: the reference ends before anything else here refers to it.
        let delta = unsafe { thread::delta() };
        if let Some(confinement) = delta.as_ref().and_then(|delta| delta.confinement.clone()) {
            return Some(confinement);
        }
    }
    lock(&CURRENT).clone()
}

/// The program has made a ruleset that forbids `handled`.
pub fn made(descriptor: i32, handled: Rights) {
    let Ok(copy) = kernel::set_aside(borrow(descriptor)) else { return };
    let copy = copy.into_raw_fd();
    let ruleset = Ruleset { copy, layer: Layer { handled, ..Layer::default() } };
    if thread::is_vforked() {
        // SAFETY: the reference ends with the statement.
        return unsafe { thread::delta() }.get_or_insert_default().rulesets.push(ruleset);
    }
    descriptors::keep_hidden(copy);
    let mut rulesets = lock(&RULESETS);
    if rulesets.len() == KNOWN_MAX {
        let oldest = rulesets.remove(0).copy;
        descriptors::hide(oldest, false);
        // SAFETY: `made` opened this descriptor, and only the ruleset that was just removed had its number.
        drop(unsafe { OwnedFd::from_raw_fd(oldest) });
    }
    rulesets.push(ruleset);
}

/// Runs `change` on the ruleset behind a descriptor, if it is known.
pub fn of<T>(descriptor: i32, change: impl FnOnce(&mut Layer) -> T) -> Option<T> {
    let process = std::process::id() as usize;
    let is_it = |ruleset: &&mut Ruleset| {
        let arguments = [process, process, KCMP_FILE, descriptor as usize, ruleset.copy as usize, 0];
        // SAFETY: it compares two descriptors and changes nothing.
        unsafe { arch::syscall(libc::SYS_kcmp as usize, arguments) == 0 }
    };
    if thread::is_vforked() {
        // SAFETY: the reference ends before anything else here refers to it.
        let delta = unsafe { thread::delta() }.get_or_insert_default();
        if let Some(ruleset) = delta.rulesets.iter_mut().rev().find(is_it) {
            return Some(change(&mut ruleset.layer));
        }
    }
    lock(&RULESETS).iter_mut().rev().find(is_it).map(|ruleset| change(&mut ruleset.layer))
}

/// The ruleset behind a descriptor is in force from now on.
pub fn enforce(descriptor: i32) {
    let unknown = Layer { handled: Rights::ALL, ..Layer::default() };
    let layer = of(descriptor, |layer| layer.clone()).unwrap_or(unknown);
    if layer.handled != Rights::NONE {
        add([layer]);
    }
}

fn add(layers: impl IntoIterator<Item = Layer>) {
    let mut confinement = current().map(|current| Confinement::clone(&current)).unwrap_or_default();
    confinement.layers.extend(layers);
    let confinement = Some(Arc::new(confinement));
    if thread::is_vforked() {
        // SAFETY: the reference ends with the statement.
        unsafe { thread::delta() }.get_or_insert_default().confinement = confinement;
    } else {
        *lock(&CURRENT) = confinement;
    }
    thread_credentials::changed();
}

/// The confinement of the next program, as one word.
pub fn word() -> Option<String> {
    let confinement = current()?;
    let layer = |layer: &Layer| {
        let rules = layer.rules.iter().map(|(inode, rights)| format!(",{}={:x}", inode.0, rights.0));
        format!("{:x},{:x}{}", layer.handled.0, layer.above.0, rules.collect::<String>())
    };
    Some(confinement.layers.iter().map(layer).collect::<Vec<_>>().join(";"))
}

/// Takes over the confinement of the program before exec. A rule that cannot be read allows nothing.
pub fn inherit(word: &str) {
    let unreadable = || Layer { handled: Rights::ALL, ..Layer::default() };
    add(word.split(';').map(|text| layer_of(text).unwrap_or_else(unreadable)));
}

fn layer_of(text: &str) -> Option<Layer> {
    let rights = |text: &str| u64::from_str_radix(text, 16).ok().map(Rights);
    let mut words = text.split(',');
    let (handled, above) = (rights(words.next()?)?, rights(words.next()?)?);
    let rule = |word: &str| {
        let (inode, allowed) = word.split_once('=')?;
        Some((InodeNumber(inode.parse().ok()?), rights(allowed)?))
    };
    Some(Layer { handled, above, rules: words.map(rule).collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_survives_the_word_it_is_written_as() {
        let rules = vec![(InodeNumber(7), Rights(0x4c)), (InodeNumber(1 << 40), Rights(1))];
        let layer = Layer { handled: Rights(0x1fff), above: Rights(4), rules };
        let text = format!(
            "{:x},{:x}{}",
            layer.handled.0,
            layer.above.0,
            layer.rules.iter().map(|rule| format!(",{}={:x}", rule.0.0, rule.1.0)).collect::<String>()
        );
        assert_eq!(layer_of(&text), Some(layer));
        assert_eq!(layer_of("1fff"), None);
        assert_eq!(layer_of("1,2,3"), None);
    }
}
