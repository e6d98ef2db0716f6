//! A request as it is sent: alone, or behind what makes sure that it is executed exactly once ([`cuesta_format::call_tag`]).

use super::messages::Request;
use super::once::Once;
use cuesta_format::{CallTag, CallerId, LogDependency};
use cuesta_libfs::Error;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::ser::{SerializeTuple as _, Serializer};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The slot of calls by the socket, of which there is one at a time. That of a lane follows by its number.
const SOCKET_SLOT: u16 = 0;

/// One message: a request, and before it a [`Request::Once`] if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call<'a> {
    pub(crate) once: Option<Once>,
    pub(crate) request: Request<'a>,
}

impl Serialize for Call<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut message = serializer.serialize_tuple(2)?;
        if let Some(once) = self.once {
            message.serialize_element(&Request::Once(once))?;
        }
        message.serialize_element(&self.request)?;
        message.end()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Call<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Call<'a>, D::Error> {
        struct Parts;
        impl<'de> Visitor<'de> for Parts {
            type Value = Call<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a request")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Call<'de>, A::Error> {
                let missing = || A::Error::custom("a request is missing");
                let once = match parts.next_element()?.ok_or_else(missing)? {
                    Request::Once(once) => once,
                    request => return Ok(Call { once: None, request }),
                };
                match parts.next_element()?.ok_or_else(missing)? {
                    Request::Once(_) => Err(A::Error::custom("one call is not two")),
                    request => Ok(Call { once: Some(once), request }),
                }
            }
        }
        deserializer.deserialize_tuple(2, Parts)
    }
}

/// The process whose calls SharedFS does, beside what its own session does.
pub trait OwnSession: std::fmt::Debug + Send + Sync {
    /// How far the session's log goes, if there is one and the disk may lack some of it.
    fn undurable_end(&self) -> Option<LogDependency>;
    /// An answer rests on this part of the log of SharedFS's session.
    fn note(&self, seen: LogDependency);
}

/// The number of the last call: each has a larger one than those before.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    last: AtomicU64,
    pub(crate) beside: OnceLock<Arc<dyn OwnSession>>,
}

impl Numbers {
    /// What `request` is known by, as a call of `slot`; nothing if it may be executed twice. To be asked when the slot is the
    /// calling thread's.
    pub(crate) fn next(&self, slot: u16, request: &Request<'_>) -> Option<Once> {
        request.may_change().then(|| {
            let number = (self.last.fetch_add(1, Ordering::Relaxed) + 1).min(CallTag::NUMBER_MAX);
            let behind = self.beside.get().and_then(|session| session.undurable_end());
            Once { caller: None, slot, number, again: false, behind }
        })
    }
}

impl Numbers {
    /// An answer rests on this part of the log of SharedFS's session.
    pub(crate) fn note_end(&self, log_end: Option<LogDependency>) {
        if let (Some(seen), Some(session)) = (log_end, self.beside.get()) {
            session.note(seen);
        }
    }
}

/// How a client's calls are known.
#[derive(Debug)]
pub(crate) struct Numbering {
    caller: CallerId,
    /// The daemon knows the caller of this connection.
    is_introduced: bool,
    numbers: Arc<Numbers>,
}

impl Numbering {
    /// A new caller.
    pub(crate) fn new() -> Result<Numbering, Error> {
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id[..], rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| Error::Daemon(format!("no random numbers: {errno}")))?;
        Ok(Numbering { caller: CallerId(id), is_introduced: false, numbers: Arc::default() })
    }

    /// Some of its random bits.
    pub(crate) fn random(&self) -> u64 {
        self.caller.0.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// The numbers of all its calls.
    pub(crate) fn numbers(&self) -> Arc<Numbers> {
        Arc::clone(&self.numbers)
    }

    /// `request` as it is asked by the socket for the first time.
    pub(crate) fn call<'a>(&self, request: &Request<'a>) -> Call<'a> {
        Call { once: self.numbers.next(SOCKET_SLOT, request), request: *request }
    }

    /// What makes the caller known to the daemon, unless it is.
    pub(crate) fn introduction(&self) -> Option<Request<'static>> {
        (!self.is_introduced).then_some(Request::Identify { caller: self.caller })
    }

    /// The daemon knows the caller.
    pub(crate) fn note_introduction(&mut self) {
        self.is_introduced = true;
    }

    /// The caller is told with the first of a connection's calls.
    pub(crate) fn introduce(&mut self, call: &mut Call<'_>) {
        if let Some(once) = &mut call.once {
            once.caller = (!std::mem::replace(&mut self.is_introduced, true)).then_some(self.caller);
        }
    }

    /// The first request on the next connection of a caller that the last daemon knew.
    pub(crate) fn reintroduction(&self) -> Option<Request<'static>> {
        self.is_introduced.then_some(Request::Identify { caller: self.caller })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::messages::PathBase;

    const ONCE: Once =
        Once { caller: Some(CallerId([9; 16])), slot: 3, number: 7, again: true, behind: None };

    #[test]
    fn a_call_is_its_request_with_or_without_a_number() {
        let request = Request::Unlink { place: PathBase::Root, path: b"name", directory: false };
        let alone = postcard::to_stdvec(&Call { once: None, request }).unwrap();
        assert_eq!(alone, postcard::to_stdvec(&request).unwrap(), "as clients send that know no numbers");
        assert_eq!(postcard::from_bytes(&alone), Ok(Call { once: None, request }));
        let numbered = Call { once: Some(ONCE), request };
        let bytes = postcard::to_stdvec(&numbered).unwrap();
        assert_eq!(bytes.len(), alone.len() + 22);
        assert_eq!(postcard::from_bytes(&bytes), Ok(numbered));
        for length in 0..bytes.len() {
            assert!(postcard::from_bytes::<Call<'_>>(&bytes[..length]).is_err(), "{length} bytes");
        }
        let twice = postcard::to_stdvec(&(Request::Once(ONCE), Request::Once(ONCE), request)).unwrap();
        assert!(postcard::from_bytes::<Call<'_>>(&twice).is_err());
    }

    #[test]
    fn the_caller_is_told_once_a_connection() {
        let mut numbering = Numbering::new().unwrap();
        let request = Request::Unlink { place: PathBase::Root, path: b"name", directory: false };
        let callers = [0, 1].map(|_| {
            let mut call = numbering.call(&request);
            numbering.introduce(&mut call);
            call.once.unwrap().caller
        });
        assert_eq!(callers, [Some(numbering.caller), None]);
        assert_eq!(numbering.call(&Request::Settle).once, None);
        assert_eq!(numbering.call(&request).once.unwrap().number, 3);
    }
}
