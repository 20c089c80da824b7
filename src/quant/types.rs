//! The tensor types a GGUF file can name: ids, names, block sizes.

/// A ggml tensor type. Discriminants are the ids in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are ggml's own; see the table in `INFO`")]
pub enum GgmlType {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q8_1 = 9,
    Q2K = 10,
    Q3K = 11,
    Q4K = 12,
    Q5K = 13,
    Q6K = 14,
    Q8K = 15,
    Iq2Xxs = 16,
    Iq2Xs = 17,
    Iq3Xxs = 18,
    Iq1S = 19,
    Iq4Nl = 20,
    Iq3S = 21,
    Iq2S = 22,
    Iq4Xs = 23,
    I8 = 24,
    I16 = 25,
    I32 = 26,
    I64 = 27,
    F64 = 28,
    Iq1M = 29,
    Bf16 = 30,
    Tq1_0 = 34,
    Tq2_0 = 35,
    Mxfp4 = 39,
    Nvfp4 = 40,
    Q1_0 = 41,
    Q2_0 = 42,
}

use GgmlType as T;

/// Type, name as ggml prints it, values per block, bytes per block.
#[rustfmt::skip]
const INFO: [(GgmlType, &str, usize, usize); 35] = [
    (T::F32, "f32", 1, 4),          (T::F16, "f16", 1, 2),          (T::Bf16, "bf16", 1, 2),
    (T::Q4_0, "q4_0", 32, 18),      (T::Q4_1, "q4_1", 32, 20),      (T::Q5_0, "q5_0", 32, 22),
    (T::Q5_1, "q5_1", 32, 24),      (T::Q8_0, "q8_0", 32, 34),      (T::Q8_1, "q8_1", 32, 36),
    (T::Q2K, "q2_K", 256, 84),      (T::Q3K, "q3_K", 256, 110),     (T::Q4K, "q4_K", 256, 144),
    (T::Q5K, "q5_K", 256, 176),     (T::Q6K, "q6_K", 256, 210),     (T::Q8K, "q8_K", 256, 292),
    (T::Iq2Xxs, "iq2_xxs", 256, 66),(T::Iq2Xs, "iq2_xs", 256, 74),  (T::Iq2S, "iq2_s", 256, 82),
    (T::Iq3Xxs, "iq3_xxs", 256, 98),(T::Iq3S, "iq3_s", 256, 110),   (T::Iq1S, "iq1_s", 256, 50),
    (T::Iq1M, "iq1_m", 256, 56),    (T::Iq4Nl, "iq4_nl", 32, 18),   (T::Iq4Xs, "iq4_xs", 256, 136),
    (T::Tq1_0, "tq1_0", 256, 54),   (T::Tq2_0, "tq2_0", 256, 66),   (T::Mxfp4, "mxfp4", 32, 17),
    (T::Nvfp4, "nvfp4", 64, 36),    (T::Q1_0, "q1_0", 128, 18),     (T::Q2_0, "q2_0", 64, 18),
    (T::I8, "i8", 1, 1),            (T::I16, "i16", 1, 2),          (T::I32, "i32", 1, 4),
    (T::I64, "i64", 1, 8),          (T::F64, "f64", 1, 8),
];

/// A type id that cannot be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tensor type id {id} {reason}")]
pub struct UnknownType {
    /// The id found.
    pub id: u32,
    /// What is known of it.
    pub reason: &'static str,
}

impl GgmlType {
    /// Every type, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        INFO.iter().map(|row| row.0)
    }

    /// The type a file's id names.
    ///
    /// # Errors
    /// Ids that ggml removed, ids of forks, and ids nobody defines, each with its own text.
    pub fn from_id(id: u32) -> Result<Self, UnknownType> {
        if let Some(row) = INFO.iter().find(|row| row.0 as u32 == id) {
            return Ok(row.0);
        }
        let reason = match id {
            4 | 5 | 31 | 32 | 33 | 36 | 37 | 38 => {
                "was removed from GGUF (or is a fork's reuse of a removed id); requantise the file \
                 with a current llama.cpp"
            }
            97..=1000 => {
                "belongs to a fork (ik_llama.cpp, TurboQuant, ...), not to mainline GGUF; \
                 requantise the file with llama.cpp"
            }
            _ => "is not a GGUF tensor type; the file is damaged or newer than this program",
        };
        Err(UnknownType { id, reason })
    }

    /// The type of a name as ggml prints it, upper or lower case.
    pub fn from_name(name: &str) -> Option<Self> {
        INFO.iter().find(|row| row.1.eq_ignore_ascii_case(name)).map(|row| row.0)
    }

    fn info(self) -> &'static (Self, &'static str, usize, usize) {
        INFO.iter().find(|row| row.0 == self).expect("every type has a row in INFO")
    }

    /// Id in the file.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// Name as ggml prints it.
    pub fn name(self) -> &'static str {
        self.info().1
    }

    /// Values per block.
    pub fn block_len(self) -> usize {
        self.info().2
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        self.info().3
    }

    /// Whether weights can be stored in it (the others are for activations or plain data).
    pub fn is_weight(self) -> bool {
        !matches!(self, T::Q8_1 | T::Q8K | T::I8 | T::I16 | T::I32 | T::I64 | T::F64)
    }

    /// Bytes of a row of `n` values; `None` where `n` is not a whole number of blocks or overflows.
    pub fn row_bytes(self, n: usize) -> Option<usize> {
        let (len, bytes) = (self.block_len(), self.block_bytes());
        n.is_multiple_of(len).then_some(n / len)?.checked_mul(bytes)
    }
}

impl std::fmt::Display for GgmlType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_lead_back_to_their_type() {
        let mut ids = std::collections::BTreeSet::new();
        for ty in GgmlType::all() {
            assert_eq!(GgmlType::from_id(ty.id()), Ok(ty));
            assert_eq!(GgmlType::from_name(ty.name()), Some(ty));
            assert_eq!(GgmlType::from_name(&ty.name().to_uppercase()), Some(ty));
            assert!(ids.insert(ty.id()), "{ty} has another type's id");
        }
        assert_eq!(GgmlType::from_name("q4_9"), None);
    }

    #[test]
    fn unknown_ids_say_what_is_known_of_them() {
        let known: Vec<u32> = GgmlType::all().map(GgmlType::id).collect();
        let unknown = (0..2000).chain([u32::MAX]).filter(|id| !known.contains(id));
        for id in unknown {
            let error = GgmlType::from_id(id).expect_err("no type has this id");
            assert_eq!(error.id, id);
            let expected = match id {
                4 | 5 | 31 | 32 | 33 | 36 | 37 | 38 => "was removed from GGUF",
                97..=1000 => "belongs to a fork",
                _ => "is not a GGUF tensor type",
            };
            let text = error.to_string();
            assert!(text.starts_with(&format!("tensor type id {id} {expected}")), "{text}");
        }
    }

    #[test]
    fn rows_are_whole_blocks() {
        for ty in GgmlType::all() {
            let (len, bytes) = (ty.block_len(), ty.block_bytes());
            assert_eq!(ty.row_bytes(0), Some(0), "{ty}");
            assert_eq!(ty.row_bytes(3 * len), Some(3 * bytes), "{ty}");
            if len > 1 {
                assert_eq!(ty.row_bytes(3 * len - 1), None, "{ty}");
            }
        }
        assert_eq!(GgmlType::F32.row_bytes(usize::MAX), None, "the size overflows");
    }

    #[test]
    fn sizes_follow_from_the_bits_per_value() {
        // Hundredths of a bit per value, from the formats' published figures.
        let figures = [
            (T::Q4_0, 450),
            (T::Q8_0, 850),
            (T::Q2K, 262),
            (T::Q3K, 343),
            (T::Q4K, 450),
            (T::Q5K, 550),
            (T::Q6K, 656),
            (T::Iq2Xxs, 206),
            (T::Iq2Xs, 231),
            (T::Iq2S, 256),
            (T::Iq3Xxs, 306),
            (T::Iq3S, 343),
            (T::Iq1S, 156),
            (T::Iq1M, 175),
            (T::Iq4Nl, 450),
            (T::Iq4Xs, 425),
            (T::Tq1_0, 168),
            (T::Tq2_0, 206),
            (T::Mxfp4, 425),
            (T::Nvfp4, 450),
        ];
        for (ty, hundredths) in figures {
            assert_eq!(800 * ty.block_bytes() / ty.block_len(), hundredths, "{ty}");
        }
    }
}
