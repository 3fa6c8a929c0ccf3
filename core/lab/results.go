package lab

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Reader is what reading stored results needs of a pool in the playground's schema.
type Reader interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// ErrNoRun: no stored run has this id.
var ErrNoRun = errors.New("there is no such run")

const (
	readResult = `SELECT report, trails FROM playground.runs WHERE id = $1`

	// The newest report of every cell, by the index runs_cell. A run with other
	// positions or another number of orders cannot be compared with a declaration.
	newestCells = `
SELECT DISTINCT ON (chapter, variant, bus, fault) report
FROM playground.runs
WHERE standard
ORDER BY chapter, variant, bus, fault, finished_at DESC`

	newestRuns = `SELECT report FROM playground.runs ORDER BY finished_at DESC LIMIT $1`

	// The event's trail inside the run that knew it; a UUID is in one run only.
	trailOfEvent = `
SELECT report, (SELECT e FROM jsonb_array_elements(trails) e WHERE e->'trail'->>'event_id' = $1 LIMIT 1)
FROM playground.runs
WHERE trails @> jsonb_build_array(jsonb_build_object('trail', jsonb_build_object('event_id', $1::text)))
LIMIT 1`
)

// Load reads a stored run; ErrNoRun when there is none.
func Load(ctx context.Context, db Reader, id string) (Result, error) {
	if !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		return Result{}, ErrNoRun // Postgres could not even compare it
	}
	rows, err := db.Query(ctx, readResult, id)
	if err != nil {
		return Result{}, err
	}
	type stored struct{ Report, Trails []byte }
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[stored])
	if errors.Is(err, pgx.ErrNoRows) {
		return Result{}, ErrNoRun
	}
	if err != nil {
		return Result{}, err
	}
	var res Result
	return res, errors.Join(json.Unmarshal(s.Report, &res.Report), json.Unmarshal(s.Trails, &res.Trails))
}

// Recent reads the newest reports, at most n.
func Recent(ctx context.Context, db Reader, n int) ([]Report, error) {
	return reports(ctx, db, newestRuns, n)
}

// FindEvent reads the trail of an event from the run that knew it, and the run's
// report; ErrNoRun when no stored run did.
func FindEvent(ctx context.Context, db Reader, eventID string) (Report, EventTrail, error) {
	var report Report
	var event EventTrail
	rows, err := db.Query(ctx, trailOfEvent, eventID)
	if err != nil {
		return report, event, err
	}
	type found struct{ Report, Event []byte }
	f, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[found])
	if errors.Is(err, pgx.ErrNoRows) {
		return report, event, ErrNoRun
	}
	if err != nil {
		return report, event, err
	}
	return report, event, errors.Join(json.Unmarshal(f.Report, &report), json.Unmarshal(f.Event, &event))
}

func reports(ctx context.Context, db Reader, sql string, args ...any) ([]Report, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Report, err error) {
		var text []byte
		if err := row.Scan(&text); err != nil {
			return r, err
		}
		return r, json.Unmarshal(text, &r)
	})
}

// Guarantee is one cell of the guarantees table: declared beside measured.
type Guarantee struct {
	Chapter  int    `json:"chapter"`
	Variant  string `json:"variant"`
	Bus      string `json:"bus"`
	Fault    string `json:"fault"`
	Declared string `json:"declared"`
	// Measured is nil until a run has measured the cell here.
	Measured *Report `json:"measured"`
	// Agrees is false when the newest run contradicts the declaration, nil when the
	// cell was not measured.
	Agrees        *bool     `json:"agrees"`
	Differs       string    `json:"differs,omitempty"`
	NotApplicable string    `json:"not_applicable,omitempty"`
	AsOf          time.Time `json:"as_of,omitzero"`
}

// Guarantees lists every cell of the chapters on the given buses with the newest
// measurement that is stored.
func Guarantees(ctx context.Context, db Reader, chapters []Chapter, buses []string) ([]Guarantee, error) {
	newest, err := reports(ctx, db, newestCells)
	if err != nil {
		return nil, err
	}
	measured := map[cellKey]*Report{}
	for i, r := range newest {
		measured[cellKey{r.Chapter, r.Variant, r.Bus, r.Faults[0].Name}] = &newest[i]
	}
	var table []Guarantee
	for _, c := range chapters {
		for _, v := range c.Variants {
			for _, d := range v.Declared {
				for _, b := range buses {
					table = append(table, guarantee(c, v, d, b, measured))
				}
			}
		}
	}
	return table, nil
}

type cellKey struct {
	chapter             int
	variant, bus, fault string
}

func guarantee(c Chapter, v Variant, d Declaration, busName string, measured map[cellKey]*Report) Guarantee {
	f, _ := FaultNamed(d.Fault)
	g := Guarantee{Chapter: c.Number, Variant: v.Name, Bus: busName, Fault: d.Fault,
		Declared: d.On(busName), NotApplicable: f.NotApplicable(c, busName)}
	r := measured[cellKey{c.Number, v.Name, busName, d.Fault}]
	if r == nil {
		return g
	}
	g.Measured, g.AsOf = r, r.AsOf
	g.Differs = Agrees(g.Declared, *r)
	agrees := g.Differs == ""
	g.Agrees = &agrees
	return g
}
