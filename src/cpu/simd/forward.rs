//! Methods of [`super::Simd`] that a set takes from the one it includes, the first field of its
//! token.

/// Methods that call the same method of `self.0`.
macro_rules! methods {
    ($(
        fn $name:ident $(<$P:ident: $bound:path>)? (self $(, $arg:ident: $ty:ty)*) $(-> $out:ty)?;
    )*) => {$(
        #[inline(always)]
        fn $name $(<$P: $bound>)? (self $(, $arg: $ty)*) $(-> $out)? {
            self.0.$name $(::<$P>)? ($($arg),*)
        }
    )*};
}

pub(super) use methods;
