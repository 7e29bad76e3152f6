// SPDX-License-Identifier: Apache-2.0

package tsnperf

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const (
	talkerColumns   = "sequence,txtime_ns,wakeup_ns,send_start_ns,send_end_ns,errno"
	cpuTimeColumns  = "cpu_ns"
	listenerColumns = "sequence,txtime_ns,arrival_ns,payload_bytes,source,source_port,valid"
)

// Sent is a talker's record of one message. Times are nanoseconds of the talker's clock.
type Sent struct {
	Sequence uint32
	Txtime   int64
	// Wakeup is when the talker woke up, or began to spin.
	Wakeup    int64
	SendStart int64
	SendEnd   int64
	// Errno is the result of the send call, 0 for success.
	Errno int
	// Asked is Txtime before the conversion to ktsnd's clock, in a virtual machine; 0: Txtime.
	Asked int64
}

// Received is a listener's record of one message. Times are nanoseconds of the talker's clock.
type Received struct {
	Sequence     uint32
	Txtime       int64
	Arrival      int64
	PayloadBytes uint32
	Source       netip.AddrPort
	// Valid reports whether all bytes are as sent.
	Valid bool
}

// ReadTalker reads the output of `tsnperf talker --csv`.
func ReadTalker(from io.Reader) ([]Sent, error) {
	var all []Sent
	err := readTable(from, talkerColumns, func(row *row) {
		all = append(all, Sent{
			Sequence:  uint32(row.unsigned(0, 32)),
			Txtime:    row.signed(1),
			Wakeup:    row.signed(2),
			SendStart: row.signed(3),
			SendEnd:   row.signed(4),
			Errno:     int(row.signed(5)),
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the talker's records: %w", err)
	}
	return all, nil
}

// WriteTalker writes the format that ReadTalker reads.
func WriteTalker(to io.Writer, all []Sent) error {
	text := bufio.NewWriter(to)
	fmt.Fprintln(text, talkerColumns)
	for i := range all {
		record := &all[i]
		fmt.Fprintf(text, "%d,%d,%d,%d,%d,%d\n", record.Sequence, record.Txtime, record.Wakeup, record.SendStart, record.SendEnd, record.Errno)
	}
	return text.Flush()
}

// ReadCPUTime reads the output of `tsnperf talker --cpu-time`.
func ReadCPUTime(from io.Reader) (time.Duration, error) {
	var all []time.Duration
	err := readTable(from, cpuTimeColumns, func(row *row) { all = append(all, time.Duration(row.signed(0))) })
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("there are %d values instead of one", len(all))
	}
	if err != nil {
		return 0, fmt.Errorf("read the talker's processor time: %w", err)
	}
	return all[0], nil
}

// ReadListener reads the output of `tsnperf listener --csv`.
func ReadListener(from io.Reader) ([]Received, error) {
	var all []Received
	err := readTable(from, listenerColumns, func(row *row) {
		all = append(all, Received{
			Sequence:     uint32(row.unsigned(0, 32)),
			Txtime:       row.signed(1),
			Arrival:      row.signed(2),
			PayloadBytes: uint32(row.unsigned(3, 32)),
			Source:       netip.AddrPortFrom(row.address(4), uint16(row.unsigned(5, 16))),
			Valid:        row.unsigned(6, 1) == 1,
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the listener's records: %w", err)
	}
	return all, nil
}

// readTable calls take for each line after the header, which must have exactly the columns.
func readTable(from io.Reader, columns string, take func(*row)) error {
	lines := bufio.NewScanner(from)
	if !lines.Scan() {
		if err := lines.Err(); err != nil {
			return err
		}
		return fmt.Errorf("the file is empty: %w", io.ErrUnexpectedEOF)
	}
	if lines.Text() != columns {
		return fmt.Errorf("the columns are %q instead of %q", lines.Text(), columns)
	}
	wanted := strings.Count(columns, ",") + 1
	for number := 2; lines.Scan(); number++ {
		row := row{fields: strings.Split(lines.Text(), ",")}
		if len(row.fields) != wanted {
			return fmt.Errorf("line %d has %d fields instead of %d", number, len(row.fields), wanted)
		}
		take(&row)
		if row.err != nil {
			return fmt.Errorf("line %d: %w", number, row.err)
		}
	}
	return lines.Err()
}

// row converts the fields of one line and keeps the first error.
type row struct {
	fields []string
	err    error
}

func (r *row) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *row) signed(field int) int64 {
	value, err := strconv.ParseInt(r.fields[field], 10, 64)
	r.keep(err)
	return value
}

func (r *row) unsigned(field, bits int) uint64 {
	value, err := strconv.ParseUint(r.fields[field], 10, bits)
	r.keep(err)
	return value
}

func (r *row) address(field int) netip.Addr {
	value, err := netip.ParseAddr(r.fields[field])
	r.keep(err)
	return value
}
