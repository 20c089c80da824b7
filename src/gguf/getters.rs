//! Lenient typed access to metadata: any integer width, scalar or array. A key that is there but of
//! another type is an error that names key, expected and found.

use super::error::{Fault, GgufError, Place};
use super::file::Gguf;
use super::value::{Array, StrArray, Value};

impl Gguf {
    /// A non-negative integer of any width.
    ///
    /// # Errors
    /// If the key holds something else.
    pub fn u64(&self, key: &str) -> Result<Option<u64>, GgufError> {
        self.typed(key, "a non-negative integer", Value::as_u64)
    }

    /// A `u32`, stored in any integer width.
    ///
    /// # Errors
    /// If the key holds something else or a larger number.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, GgufError> {
        let narrow = |v: &Value| v.as_u64().and_then(|x| u32::try_from(x).ok());
        self.typed(key, "an integer from 0 to 2^32 - 1", narrow)
    }

    /// A number: float of either width, or integer.
    ///
    /// # Errors
    /// If the key holds something else.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, GgufError> {
        self.typed(key, "a number", |v| v.as_f64().map(|x| x as f32))
    }

    /// A flag: bool or integer.
    ///
    /// # Errors
    /// If the key holds something else.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.typed(key, "a bool", Value::as_bool)
    }

    /// Text.
    ///
    /// # Errors
    /// If the key holds something else.
    pub fn str(&self, key: &str) -> Result<Option<&str>, GgufError> {
        self.typed(key, "a string", Value::as_str)
    }

    /// Non-negative integers: an array of any width, or a scalar as a list of one.
    ///
    /// # Errors
    /// If the key holds something else.
    pub fn u64_list(&self, key: &str) -> Result<Option<Vec<u64>>, GgufError> {
        self.typed(key, "non-negative integers", |v| list(v, Value::as_u64))
    }

    /// Signed integers: an array of any width, or a scalar as a list of one.
    ///
    /// # Errors
    /// If the key holds something else or a number beyond 32 bits.
    pub fn i32_list(&self, key: &str) -> Result<Option<Vec<i32>>, GgufError> {
        let narrow = |v: &Value| v.as_i64().and_then(|x| i32::try_from(x).ok());
        self.typed(key, "32-bit integers", |v| list(v, narrow))
    }

    /// Numbers: an array of floats or integers, or a scalar as a list of one.
    ///
    /// # Errors
    /// If the key holds something else.
    pub fn f32_list(&self, key: &str) -> Result<Option<Vec<f32>>, GgufError> {
        self.typed(key, "numbers", |v| list(v, |x| x.as_f64().map(|x| x as f32)))
    }

    /// Flags: an array of bools or integers, or a scalar as a list of one.
    ///
    /// # Errors
    /// If the key holds something else.
    pub fn bool_list(&self, key: &str) -> Result<Option<Vec<bool>>, GgufError> {
        self.typed(key, "bools", |v| list(v, Value::as_bool))
    }

    /// An array of strings.
    ///
    /// # Errors
    /// If the key holds something else.
    pub fn str_list(&self, key: &str) -> Result<Option<&StrArray>, GgufError> {
        self.typed(key, "an array of strings", |v| match v {
            Value::Array(Array::Str(strings)) => Some(strings),
            _ => None,
        })
    }

    /// An error about a key of this file, for whoever gives its value a meaning.
    pub fn key_error(
        &self,
        key: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> GgufError {
        Fault::new(expected, found, remedy).at(self.name(), Place::Key(key.to_owned()))
    }

    /// An error about a tensor of this file, for whoever gives it a meaning.
    pub fn tensor_error(
        &self,
        tensor: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> GgufError {
        Fault::new(expected, found, remedy).at(self.name(), Place::Tensor(tensor.to_owned()))
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        convert(value).map(Some).ok_or_else(|| {
            let found = format!("{} ({})", value, value.type_name());
            self.key_error(key, expected, found, "convert the model again with a current converter")
        })
    }
}

/// Every element of an array, or the one scalar, converted; `None` where one does not convert.
fn list<T>(value: &Value, convert: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    match value {
        Value::Array(array) => array.iter().map(|v| convert(&v)).collect(),
        scalar => Some(vec![convert(scalar)?]),
    }
}
