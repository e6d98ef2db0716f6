//! Where the store is, as this program was told when it started.

use crate::call::Failure;
use crate::starting::environment::Environment;
use cuesta_format::durability::DurabilityWish;
use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Where the store is.
#[derive(Debug)]
pub struct Configuration {
    /// The daemon's socket.
    pub socket: Vec<u8>,
    /// The prefix: absolute, normal, not the root.
    pub prefix: Vec<u8>,
    /// The store is mounted there: the device's number as the kernel tells it of files.
    pub mounted: Option<u64>,
    /// What `stat` shows as the store's device, for as long as this program and those that it starts run.
    pub device: Option<u64>,
    /// When calls that ask for durability are to return.
    pub wish: DurabilityWish,
    variables: Vec<CString>,
}

static CONFIGURATION: AtomicPtr<Configuration> = AtomicPtr::new(std::ptr::null_mut());

static LIBRARY: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Notes where the store is. Call once.
pub fn configure(socket: &CStr, prefix: Vec<u8>, environment: &Environment) {
    let given = [
        (c"LD_PRELOAD", environment.preload),
        (c"CUESTA_SOCKET", Some(socket)),
        (c"CUESTA_AT", environment.at),
        (c"CUESTA_MOUNTED", environment.mounted),
        (c"CUESTA_DEVICE", environment.device),
        (c"CUESTA_PATCH", environment.patch),
        (c"CUESTA_DURABILITY", environment.durability),
    ];
    let number = |text: Option<&CStr>| text.and_then(|text| text.to_str().ok()?.parse().ok());
    let variables = given.into_iter().filter_map(|(name, value)| Some(assignment(name, value?)));
    let configuration = Configuration {
        socket: socket.to_bytes().to_vec(),
        prefix,
        mounted: number(environment.mounted),
        device: number(environment.device),
        wish: environment.durability.and_then(|text| text.to_str().ok()?.parse().ok()).unwrap_or_default(),
        variables: variables.collect(),
    };
    CONFIGURATION.store(Box::into_raw(Box::new(configuration)), Ordering::Release);
}

fn assignment(name: &CStr, value: &CStr) -> CString {
    let (name, value) = (name.to_bytes(), value.to_bytes());
    let mut text = Vec::with_capacity(name.len() + value.len() + 2);
    text.extend_from_slice(name);
    text.push(b'=');
    text.extend_from_slice(value);
    // SAFETY: both parts are C strings, so there is no zero in them.
    unsafe { CString::from_vec_unchecked(text) }
}

/// Notes where this library lies: a string of the dynamic linker's, which lives as long as the library.
pub fn note_library(path: &'static CStr) {
    LIBRARY.store(path.as_ptr().cast_mut(), Ordering::Relaxed);
}

/// Where the store is, unless this program runs without one.
pub fn configuration() -> Result<&'static Configuration, Failure> {
    // SAFETY: null, or what `configure` leaked.
    unsafe { CONFIGURATION.load(Ordering::Acquire).as_ref() }.ok_or(Failure::NotOurs)
}

/// `NAME=value` as this program was started with, if it was.
pub fn variable(name: &CStr) -> Option<CString> {
    let configuration = configuration().ok()?;
    let is_named = |text: &&CString| {
        text.as_bytes().strip_prefix(name.to_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
    };
    configuration.variables.iter().find(is_named).cloned()
}

/// Where this library lies.
pub fn preload_path() -> Option<&'static [u8]> {
    let path = LIBRARY.load(Ordering::Relaxed);
    // SAFETY: null, or the string given to `note_library`.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes()).filter(|path| !path.is_empty())
}
