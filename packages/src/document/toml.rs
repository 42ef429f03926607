//! The tree of a TOML document. Each value has its line and column.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::{DocumentError, Node, NodeValue, Position, TableMember, ValuePlace};

/// Parses a document of at most `largest` bytes.
pub(crate) fn parse(text: &[u8], largest: usize) -> Result<Node, DocumentError> {
    if text.len() > largest {
        return Err(DocumentError::whole(format!("has more than {largest} bytes")));
    }
    let lines = LineOffsets::new(text);
    let text = std::str::from_utf8(text)
        .map_err(|error| DocumentError::at(lines.place(error.valid_up_to()), "is not UTF-8"))?;
    let table = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(text.len(), |span| span.start);
        DocumentError::at(lines.place(start), error.message())
    })?;
    // The outermost table has no position. If a member of it is missing, the error points to the
    // end.
    let end = text.trim_end().len();
    Ok(lines.table(table.get_ref(), &(end..end)))
}

/// The offsets at which the lines of a text begin. They locate a position without reading the text
/// before it.
struct LineOffsets<'t> {
    text: &'t [u8],
    starts: Vec<usize>,
}

impl<'t> LineOffsets<'t> {
    fn new(text: &'t [u8]) -> Self {
        let newlines = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let after = newlines.map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after).collect() }
    }

    /// Returns the place of the byte `offset`. An offset beyond the text means its end.
    fn place(&self, offset: usize) -> ValuePlace {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let before = &self.text[self.starts[line - 1]..offset];
        // Every character has exactly one byte that is not a continuation byte.
        let characters = before.iter().filter(|byte| **byte & 0b1100_0000 != 0b1000_0000).count();
        ValuePlace::Position(Position { line, column: 1 + characters })
    }

    fn node(&self, value: &DeValue<'_>, span: &Range<usize>) -> Node {
        let value = match value {
            DeValue::String(text) => NodeValue::Text(text.clone().into_owned()),
            DeValue::Integer(number) => {
                match u64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => NodeValue::Number(number),
                    Err(_) => NodeValue::Other("number out of range"),
                }
            }
            DeValue::Boolean(value) => NodeValue::Bool(*value),
            DeValue::Array(nodes) => NodeValue::List(
                nodes.iter().map(|node| self.node(node.get_ref(), &node.span())).collect(),
            ),
            DeValue::Table(table) => return self.table(table, span),
            DeValue::Float(_) | DeValue::Datetime(_) => NodeValue::Other(value.type_str()),
        };
        Node { place: self.place(span.start), value }
    }

    fn table(&self, table: &DeTable<'_>, span: &Range<usize>) -> Node {
        let mut members: Vec<(usize, TableMember)> = Vec::with_capacity(table.len());
        for (key, node) in table {
            let start = key.span().start;
            let place = self.place(start);
            let node = self.node(node.get_ref(), &node.span());
            members.push((
                start,
                TableMember { key: key.get_ref().clone().into_owned(), place, node },
            ));
        }
        // The first mistake in the file is reported first.
        members.sort_by_key(|(start, _)| *start);
        let members = members.into_iter().map(|(_, member)| member).collect();
        Node { place: self.place(span.start), value: NodeValue::Table(members) }
    }
}
