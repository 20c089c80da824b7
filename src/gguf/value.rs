//! Metadata values: typed scalars, typed arrays, and how they are stored.

use std::fmt;
use std::io::{self, Write};

use super::cursor::Cursor;
use super::error::{Fault, quoted};

const BOOL: u32 = 7;
const STR: u32 = 8;
const ARRAY: u32 = 9;

/// Declares everything that is the same for the ten number types: id in the file, variant, type.
macro_rules! numbers {
    ($($id:literal $variant:ident $ty:ident,)*) => {
        /// A metadata value, in the type the file gives it.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "each number variant holds the Rust type of its name")]
        pub enum Value {
            $($variant($ty),)*
            Bool(bool),
            Str(String),
            Array(Array),
        }

        /// An array of one type. Arrays of arrays do not exist.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs, reason = "each number variant holds the Rust type of its name")]
        pub enum Array {
            $($variant(Vec<$ty>),)*
            Bool(Vec<bool>),
            Str(StrArray),
        }

        impl Value {
            /// Name of the type, for messages.
            pub fn type_name(&self) -> String {
                match self {
                    $(Self::$variant(_) => stringify!($ty).to_owned(),)*
                    Self::Bool(_) => "bool".to_owned(),
                    Self::Str(_) => "string".to_owned(),
                    Self::Array(a) => format!("array of {} {}", a.len(), a.item_type()),
                }
            }

            fn type_id(&self) -> u32 {
                match self {
                    $(Self::$variant(_) => $id,)*
                    Self::Bool(_) => BOOL,
                    Self::Str(_) => STR,
                    Self::Array(_) => ARRAY,
                }
            }

            /// Reads a value of the type `id`.
            pub(super) fn read(id: u32, from: &mut Cursor<'_>) -> Result<Self, Fault> {
                Ok(match id {
                    $($id => Self::$variant($ty::from_le_bytes(from.array("value")?)),)*
                    BOOL => Self::Bool(read_bool(from.array::<1>("value")?[0])?),
                    STR => Self::Str(from.str("string value")?.to_owned()),
                    ARRAY => Self::Array(Array::read(from)?),
                    _ => return Err(Fault::damaged("a value type from 0 to 12", id.to_string())),
                })
            }

            fn write_payload(&self, out: &mut dyn Write) -> io::Result<()> {
                match self {
                    $(Self::$variant(x) => out.write_all(&x.to_le_bytes()),)*
                    Self::Bool(x) => out.write_all(&[u8::from(*x)]),
                    Self::Str(x) => write_str(out, x),
                    Self::Array(x) => x.write(out),
                }
            }
        }

        impl Array {
            /// Number of elements.
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$variant(v) => v.len(),)*
                    Self::Bool(v) => v.len(),
                    Self::Str(v) => v.len(),
                }
            }

            /// Name of the element type, for messages.
            pub fn item_type(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => stringify!($ty),)*
                    Self::Bool(_) => "bool",
                    Self::Str(_) => "string",
                }
            }

            /// One element as a value of its own.
            pub fn get(&self, index: usize) -> Option<Value> {
                match self {
                    $(Self::$variant(v) => v.get(index).copied().map(Value::$variant),)*
                    Self::Bool(v) => v.get(index).copied().map(Value::Bool),
                    Self::Str(v) => v.get(index).map(Value::from),
                }
            }

            fn read(from: &mut Cursor<'_>) -> Result<Self, Fault> {
                let id = from.u32("array type")?;
                let count = from.u64("array length")?;
                Ok(match id {
                    $($id => Self::$variant({
                        const SIZE: usize = size_of::<$ty>();
                        let bytes = read_items(from, count, SIZE)?;
                        let (items, _) = bytes.as_chunks::<SIZE>();
                        items.iter().map(|item| $ty::from_le_bytes(*item)).collect()
                    }),)*
                    BOOL => Self::Bool({
                        let bytes = read_items(from, count, 1)?;
                        bytes.iter().map(|&b| read_bool(b)).collect::<Result<_, _>>()?
                    }),
                    STR => Self::Str(StrArray::read(from, count)?),
                    ARRAY => return Err(Fault::damaged("plain elements", "nested arrays")),
                    _ => return Err(Fault::damaged("an element type from 0 to 12", id.to_string())),
                })
            }

            fn write(&self, out: &mut dyn Write) -> io::Result<()> {
                let id = match self {
                    $(Self::$variant(_) => $id,)*
                    Self::Bool(_) => BOOL,
                    Self::Str(_) => STR,
                };
                out.write_all(&u32::to_le_bytes(id))?;
                out.write_all(&(self.len() as u64).to_le_bytes())?;
                match self {
                    $(Self::$variant(v) => {
                        v.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))
                    })*
                    Self::Bool(v) => v.iter().try_for_each(|x| out.write_all(&[u8::from(*x)])),
                    Self::Str(v) => v.iter().try_for_each(|s| write_str(out, s)),
                }
            }
        }

        $(
            impl From<$ty> for Value {
                fn from(x: $ty) -> Self {
                    Self::$variant(x)
                }
            }
            impl From<Vec<$ty>> for Value {
                fn from(x: Vec<$ty>) -> Self {
                    Self::Array(Array::$variant(x))
                }
            }
        )*
    };
}

numbers! {
    0 U8 u8, 1 I8 i8, 2 U16 u16, 3 I16 i16, 4 U32 u32, 5 I32 i32, 6 F32 f32,
    10 U64 u64, 11 I64 i64, 12 F64 f64,
}

impl Value {
    /// The value as an integer of any width, if it is one.
    fn integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(x) => x.into(),
            Self::I8(x) => x.into(),
            Self::U16(x) => x.into(),
            Self::I16(x) => x.into(),
            Self::U32(x) => x.into(),
            Self::I32(x) => x.into(),
            Self::U64(x) => x.into(),
            Self::I64(x) => x.into(),
            _ => return None,
        })
    }

    /// The value as a non-negative integer, whatever its width.
    pub fn as_u64(&self) -> Option<u64> {
        self.integer().and_then(|x| u64::try_from(x).ok())
    }

    /// The value as a signed integer, whatever its width.
    pub fn as_i64(&self) -> Option<i64> {
        self.integer().and_then(|x| i64::try_from(x).ok())
    }

    /// The value as a number: a float of either width, or an integer.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::F32(x) => Some(f64::from(*x)),
            Self::F64(x) => Some(*x),
            other => other.integer().map(|x| x as f64),
        }
    }

    /// The value as a flag: a bool, or an integer that is zero or not.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(x) => Some(*x),
            other => other.integer().map(|x| x != 0),
        }
    }

    /// The value as text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(x) => Some(x),
            _ => None,
        }
    }

    /// Type id, then the value.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.type_id().to_le_bytes())?;
        self.write_payload(out)
    }
}

impl Array {
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, each as a value of its own.
    pub fn iter(&self) -> impl Iterator<Item = Value> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

/// Scalars as they are, text quoted, arrays by their first elements.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        match self {
            Self::Bool(x) => x.fmt(f),
            Self::Str(x) => f.write_str(&quoted(x)),
            Self::F32(x) => x.fmt(f),
            Self::F64(x) => x.fmt(f),
            Self::Array(a) => {
                let mut shown: Vec<String> = a.iter().take(SHOWN).map(|v| v.to_string()).collect();
                if a.len() > SHOWN {
                    shown.push(format!("... {} in all", a.len()));
                }
                write!(f, "[{}]", shown.join(", "))
            }
            number => write!(f, "{}", number.integer().unwrap_or_default()),
        }
    }
}

/// Many strings in one buffer: a vocabulary costs its text and one offset per token.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StrArray {
    text: String,
    ends: Vec<usize>,
}

impl StrArray {
    fn read(from: &mut Cursor<'_>, count: u64) -> Result<Self, Fault> {
        let count = from.count(count, size_of::<u64>(), "strings")?;
        let mut out = Self { text: String::new(), ends: Vec::with_capacity(count) };
        for _ in 0..count {
            out.push(from.str("array element")?);
        }
        Ok(out)
    }

    fn push(&mut self, s: &str) {
        self.text.push_str(s);
        self.ends.push(self.text.len());
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at `index`.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.text[start..end])
    }

    /// The strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|i| self.get(i).unwrap_or_default())
    }
}

impl<S: AsRef<str>> FromIterator<S> for StrArray {
    fn from_iter<I: IntoIterator<Item = S>>(iter: I) -> Self {
        let mut out = Self::default();
        iter.into_iter().for_each(|s| out.push(s.as_ref()));
        out
    }
}

impl From<bool> for Value {
    fn from(x: bool) -> Self {
        Self::Bool(x)
    }
}

impl From<&str> for Value {
    fn from(x: &str) -> Self {
        Self::Str(x.to_owned())
    }
}

impl From<Vec<bool>> for Value {
    fn from(x: Vec<bool>) -> Self {
        Self::Array(Array::Bool(x))
    }
}

impl From<Vec<&str>> for Value {
    fn from(x: Vec<&str>) -> Self {
        Self::Array(Array::Str(x.into_iter().collect()))
    }
}

pub(super) fn write_str(out: &mut dyn Write, s: &str) -> io::Result<()> {
    out.write_all(&(s.len() as u64).to_le_bytes())?;
    out.write_all(s.as_bytes())
}

fn read_items<'a>(from: &mut Cursor<'a>, count: u64, size: usize) -> Result<&'a [u8], Fault> {
    let count = from.count(count, size, "array elements")?;
    from.take((count * size) as u64, "array")
}

fn read_bool(byte: u8) -> Result<bool, Fault> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Fault::damaged("a bool of 0 or 1", byte.to_string())),
    }
}
