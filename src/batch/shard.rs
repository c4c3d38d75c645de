//! The shards of a batch. Each shard may run on a different machine, independently of the other shards.

use std::str::FromStr;

/// A part of the lines of a batch. A line is in the shard if its number, counted from 0, leaves the remainder `index`
/// when divided by `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    index: u64,
    count: u64,
}

impl Shard {
    /// The only shard of a batch that is not divided. It has all lines.
    pub(crate) const WHOLE: Self = Self { index: 0, count: 1 };

    /// Returns whether the line with this number, counted from 1, is in this shard.
    pub(super) fn has(self, number: u64) -> bool {
        number.wrapping_sub(1) % self.count == self.index
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/');
        let numbers =
            numbers.and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            Some(_) | None => {
                Err("not i/n with i from 0 to n - 1, such as 0/8 for the first of eight parts"
                    .to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_in_one_shard() {
        for count in 1..5_u64 {
            let shards = (0..count).map(|index| format!("{index}/{count}").parse().unwrap());
            let shards: Vec<Shard> = shards.collect();
            for number in 1..20 {
                assert_eq!(shards.iter().filter(|shard| shard.has(number)).count(), 1, "{number}");
            }
        }
        for text in ["8/8", "1", "0/0", "-1/2", "a/b", "1/2/3", ""] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
