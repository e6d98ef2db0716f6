//! The environment a program is to be executed with: strings of the calling program. Of each, only the first bytes are
//! read, once. The first byte tells that nearly none of them concerns us.

use crate::call::Failure;
use crate::memory::user_memory;

/// Most strings of a list.
const LIST_LIMIT: usize = 1 << 20;
/// First bytes of the names that concern us: `CUESTA_`, `LD_`, `ASAN_`.
const FIRST_BYTES: [u8; 3] = *b"CLA";
/// As long as the longest name that is looked for, with the sign behind it.
const HEAD_BYTES: usize = 16;
const PAGE_BYTES: usize = 4096;
/// Words of a list read at a time.
const STEP: usize = 32;

/// A variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Where the string is.
    pub address: usize,
    head: Head,
}

#[derive(Clone, Copy, Debug)]
enum Head {
    /// It begins as none that concerns us does.
    Other,
    /// Its first bytes, and what lies behind them if it is shorter.
    Read([u8; HEAD_BYTES]),
    /// The memory ends before.
    Short,
}

impl Variable {
    /// The one at `address`.
    pub fn at(address: usize) -> Self {
        let mut bytes = [0; HEAD_BYTES];
        let head = match user_memory::read_bytes(address, &mut bytes) {
            Ok(()) if !FIRST_BYTES.contains(&bytes[0]) => Head::Other,
            Ok(()) => Head::Read(bytes),
            Err(_) => Head::Short,
        };
        Self { address, head }
    }

    /// Whether it may be one of those that concern us.
    #[inline]
    pub fn may_concern_us(&self) -> bool {
        !matches!(self.head, Head::Other)
    }

    /// Whether its name is `name`, one of those that concern us.
    #[inline]
    pub fn is_named(&self, name: &[u8]) -> bool {
        self.may_concern_us() && self.has_name(name)
    }

    fn has_name(&self, name: &[u8]) -> bool {
        let is_in = |bytes: &[u8]| bytes.starts_with(name) && bytes.get(name.len()) == Some(&b'=');
        match &self.head {
            Head::Other => false,
            Head::Read(bytes) => is_in(bytes),
            Head::Short => {
                let mut bytes = [0; HEAD_BYTES];
                let bytes = &mut bytes[..=name.len()];
                user_memory::read_bytes(self.address, bytes).is_ok() && is_in(bytes)
            }
        }
    }
}

/// The variables of the environment at `address`.
pub fn of(address: usize) -> Result<Vec<Variable>, Failure> {
    Ok(list(address)?.into_iter().map(Variable::at).collect())
}

/// The words at `address`, up to a zero; none if that is null.
pub fn list(address: usize) -> Result<Vec<usize>, Failure> {
    if address == 0 {
        return Ok(Vec::new());
    }
    let mut list = Vec::with_capacity(2 * STEP);
    while list.len() < LIST_LIMIT {
        let at = address.wrapping_add(list.len() * size_of::<usize>());
        // Memory behind the list need not be mapped: at the end of a page the words are read one by one.
        if at % PAGE_BYTES + STEP * size_of::<usize>() > PAGE_BYTES {
            match user_memory::read(at)? {
                0 => return Ok(list),
                word => list.push(word),
            }
            continue;
        }
        let words: [usize; STEP] = user_memory::read(at)?;
        let end = words.iter().position(|word| *word == 0);
        list.extend_from_slice(&words[..end.unwrap_or(STEP)]);
        if end.is_some() {
            return Ok(list);
        }
    }
    Err(Failure::Errno(libc::E2BIG))
}
