// Package migrations holds the SQL that builds the tables, numbered so that a
// file's first digits name the chapter that introduces it: 00301 is the first
// migration of chapter 3. A chapter's schema is migrated up to that chapter and
// no further, so that every chapter has exactly the tables its text talks about.
package migrations

import "embed"

// Chapters are the migrations of a chapter's schema.
//
//go:embed chapters/*.sql
var Chapters embed.FS

// Playground are the migrations of the schema that outlives the chapters.
//
//go:embed playground/*.sql
var Playground embed.FS

// Level is the number up to which chapter n's schema is migrated.
func Level(n int) int64 { return int64(n)*100 + 99 }
