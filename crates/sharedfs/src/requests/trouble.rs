//! Why a request is not answered as asked: the client is refused, or the daemon failed.

use crate::Error;
use cuesta_format::wire::Refusal;

/// Why a request is not answered as asked.
pub(crate) enum Trouble {
    Refused(Refusal),
    Failed(Error),
}

pub(crate) fn invalid(what: &str) -> Trouble {
    Trouble::Refused(Refusal::Invalid(what.to_owned()))
}

impl<E: Into<Error>> From<E> for Trouble {
    fn from(error: E) -> Trouble {
        Trouble::Failed(error.into())
    }
}
