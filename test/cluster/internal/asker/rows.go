// SPDX-License-Identifier: Apache-2.0

package asker

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Row is a request.
type Row struct {
	Number uint64
	Sent   time.Time
	// Answered is zero if no answer came in time.
	Answered time.Time
	// Peer is the address of the server, invalid if the name was unknown.
	Peer netip.Addr
}

func (r *Row) write(out io.Writer) error {
	var answered int64
	if !r.Answered.IsZero() {
		answered = r.Answered.UnixNano()
	}
	peer := "-"
	if r.Peer.IsValid() {
		peer = r.Peer.String()
	}
	_, err := fmt.Fprintln(out, r.Number, r.Sent.UnixNano(), answered, peer)
	return err
}

// Read parses an asker's output. The last line may be incomplete.
func Read(text string) ([]Row, error) {
	var rows []Row
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var row Row
		var sent, answered int64
		var peer string
		if _, err := fmt.Sscan(line, &row.Number, &sent, &answered, &peer); err != nil {
			return nil, fmt.Errorf("a row %q of an asker: %w", line, err)
		}
		row.Sent = time.Unix(0, sent)
		if answered != 0 {
			row.Answered = time.Unix(0, answered)
		}
		if peer != "-" {
			var err error
			if row.Peer, err = netip.ParseAddr(peer); err != nil {
				return nil, fmt.Errorf("a row %q of an asker: %w", line, err)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Findings summarise the rows of a period.
type Findings struct {
	Sent, Lost int
	// Gap is the longest time without an answer, which began at GapFrom.
	Gap     time.Duration
	GapFrom time.Time
}

// Judge summarises the requests that were sent in a period and their answers. The times before the first and after the
// last answer count as gaps.
func Judge(rows []Row, from, to time.Time) Findings {
	var findings Findings
	at := []time.Time{from}
	for i := range rows {
		row := &rows[i]
		if !row.Sent.Before(from) && row.Sent.Before(to) {
			findings.Sent++
			if row.Answered.IsZero() {
				findings.Lost++
			}
		}
		if row.Answered.After(from) && row.Answered.Before(to) {
			at = append(at, row.Answered)
		}
	}
	at = append(at, to)
	slices.SortFunc(at, time.Time.Compare)
	for i := 1; i < len(at); i++ {
		if gap := at[i].Sub(at[i-1]); gap > findings.Gap {
			findings.Gap, findings.GapFrom = gap, at[i-1]
		}
	}
	return findings
}

// Last returns the time and the server of the last answer, zero values without one.
func Last(rows []Row) (at time.Time, from netip.Addr) {
	for i := range rows {
		if rows[i].Answered.After(at) {
			at, from = rows[i].Answered, rows[i].Peer
		}
	}
	return at, from
}
