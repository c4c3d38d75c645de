//! Converts the replies and refusals of governed tools into rmcp's types. This module never decides whether a call is
//! allowed. `governance` decides this.

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, MetaObject, ResourceContents};
use serde_json::json;
use uuid::Uuid;

use crate::governance::{Block, GovernedReply, Refusal};

use super::reply::{RECEIPT_KEY, VERIFICATION_KEY};

/// The `_meta` key of the data about the run that a result describes, such as the run's id.
const RUN_KEY: &str = "qwed.ai/run";

pub(super) fn result(reply: GovernedReply) -> CallToolResult {
    let GovernedReply { blocks, is_error, meta, receipt, verdict } = reply;
    let blocks = blocks.into_iter().map(|block| match block {
        Block::Text(text) => ContentBlock::text(text),
        Block::Binary { uri, media_type, base64 } => {
            ContentBlock::resource(ResourceContents::blob(base64, uri).with_mime_type(media_type))
        }
    });
    let blocks = blocks.collect();
    let mut result =
        if is_error { CallToolResult::error(blocks) } else { CallToolResult::success(blocks) };
    let mut about = MetaObject::new();
    about.insert(RUN_KEY.to_owned(), meta);
    if let Some(receipt) = receipt {
        about.insert(RECEIPT_KEY.to_owned(), receipt);
    }
    if let Some(verdict) = verdict {
        about.insert(VERIFICATION_KEY.to_owned(), json!(verdict));
    }
    result.meta = Some(about);
    result
}

pub(super) fn error(run_id: Uuid, refusal: &Refusal) -> ErrorData {
    ErrorData::new(
        ErrorCode(refusal.code().number()),
        refusal.message(),
        Some(refusal.data(run_id)),
    )
}
