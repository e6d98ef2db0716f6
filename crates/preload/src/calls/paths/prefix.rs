//! Paths as bytes: below the prefix or not.

/// `path` without `.`, `..` and doubled or trailing slashes; `None` if it is not absolute or is the root.
pub fn normal(path: &[u8]) -> Option<Vec<u8>> {
    let mut walk = Walk::new(path)?;
    while walk.step() {}
    (!walk.passed.is_empty()).then_some(walk.passed)
}

/// A literal walk along an absolute path.
pub struct Walk<'a> {
    /// Where it is, normal.
    pub passed: Vec<u8>,
    /// The rest of the path.
    pub rest: &'a [u8],
}

impl<'a> Walk<'a> {
    /// Starts at the root; `None` if the path does not.
    #[inline]
    pub fn new(path: &'a [u8]) -> Option<Self> {
        Some(Self { passed: Vec::new(), rest: path.strip_prefix(b"/")? })
    }

    /// Takes one component; `false` at the end.
    #[inline]
    pub fn step(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let end = self.rest.iter().position(|byte| *byte == b'/').unwrap_or(self.rest.len());
        let (component, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix(b"/").unwrap_or(rest);
        match component {
            b"" | b"." => {}
            b".." => {
                let parent = self.passed.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                self.passed.truncate(parent);
            }
            name => {
                self.passed.push(b'/');
                self.passed.extend_from_slice(name);
            }
        }
        true
    }
}

/// What remains of an absolute path below `prefix`; `None` if it does not lead there.
#[inline]
pub fn below<'a>(prefix: &[u8], path: &'a [u8]) -> Option<&'a [u8]> {
    // As most are written.
    if let Some([b'/', rest @ ..]) = path.strip_prefix(prefix) {
        return Some(rest);
    }
    let mut walk = Walk::new(path)?;
    while walk.passed != prefix {
        if !walk.step() {
            return None;
        }
    }
    Some(walk.rest)
}

#[cfg(test)]
mod tests {
    use super::{below, normal};

    #[test]
    fn only_whole_components_of_the_prefix_count() {
        assert_eq!(below(b"/a/b", b"/a/b"), Some(&b""[..]));
        assert_eq!(below(b"/a/b", b"/a/b/"), Some(&b""[..]));
        assert_eq!(below(b"/a/b", b"//a/./b//c/../d"), Some(&b"/c/../d"[..]));
        assert_eq!(below(b"/a/b", b"/x/../a/b/c"), Some(&b"c"[..]));
        assert_eq!(below(b"/a/b", b"/a/bc"), None);
        assert_eq!(below(b"/a/b", b"/a"), None);
        assert_eq!(below(b"/a/b", b"a/b"), None);
    }

    #[test]
    fn a_prefix_is_made_normal_and_must_not_be_the_root() {
        assert_eq!(normal(b"/a//b/./c/..").as_deref(), Some(&b"/a/b"[..]));
        assert_eq!(normal(b"/a/.."), None);
        assert_eq!(normal(b"a"), None);
    }
}
