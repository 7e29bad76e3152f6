// SPDX-License-Identifier: Apache-2.0

package results

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// messageColumns is the header of every CSV file of messages.
const messageColumns = "path,workload,payload_bytes,cycle_ns,alternation,talker,sequence,txtime_ns,send_start_ns," +
	"send_end_ns,departed_ns,wire_ns,arrival_ns,errno,asked_ns"

// keyColumns are the same in all lines of a run.
const keyColumns = 5

// Message is the life of one message. Times are nanoseconds of CLOCK_TAI; 0 means not observed.
type Message struct {
	// Talker counts from 0; sequence numbers are the talker's.
	Talker    int
	Sequence  uint32
	Txtime    int64
	SendStart int64
	SendEnd   int64
	// Departed is ktsnd's time, Wire the tap's, Arrival the listener's.
	Departed int64
	Wire     int64
	Arrival  int64
	Errno    int
	// Asked is the transmit time that the application requested, by the true clock, where Txtime is ktsnd's: a virtual
	// machine has its own clock. 0: Txtime.
	Asked int64
}

// guestAheadNs is how long before its time a message between virtual machines must be handed over.
const guestAheadNs = 50_000_000

// InTime reports whether a message was handed over early enough for its times to be ktsnd's: an emulated machine may
// stall for longer than its lead.
func (m *Message) InTime() bool { return m.Asked == 0 || m.SendEnd <= m.Txtime-guestAheadNs }

// MessageWriter writes messages as CSV. It is not safe for concurrent use.
type MessageWriter struct {
	out *bufio.Writer
}

// NewMessageWriter writes the header line to out.
func NewMessageWriter(out io.Writer) *MessageWriter {
	w := &MessageWriter{bufio.NewWriter(out)}
	_, _ = w.out.WriteString(messageColumns + "\n") // Flush returns the error
	return w
}

// Write writes the messages of one alternation of a run, counted from 1. Times that were not observed are empty.
func (w *MessageWriter) Write(key Key, alternation int, messages []Message) error {
	opening := fmt.Sprintf("%s,%s,%d,%d,%d", key.Path, key.Workload, key.PayloadBytes, key.CycleNs, alternation)
	for i := range messages {
		line := append(w.out.AvailableBuffer(), opening...)
		for _, column := range messages[i].columns() {
			line = append(line, ',')
			if column.value != 0 || !column.observed {
				line = strconv.AppendInt(line, column.value, 10)
			}
		}
		if _, err := w.out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// column is a number of a message; one that is observed is empty if it is 0.
type column struct {
	value    int64
	observed bool
}

func (m *Message) columns() [10]column {
	return [...]column{{int64(m.Talker), false}, {int64(m.Sequence), false}, {m.Txtime, true}, {m.SendStart, true}, {m.SendEnd, true},
		{m.Departed, true}, {m.Wire, true}, {m.Arrival, true}, {int64(m.Errno), false}, {m.Asked, true}}
}

// Flush writes buffered data to the file.
func (w *MessageWriter) Flush() error {
	return w.out.Flush()
}

// ReadMessages reads one alternation in a MessageWriter's format, without the columns that are the same in all of its
// lines.
func ReadMessages(from io.Reader) ([]Message, error) {
	lines := csv.NewReader(from)
	lines.ReuseRecord = true // there can be millions
	header, err := lines.Read()
	if err != nil || strings.Join(header, ",") != messageColumns {
		return nil, fmt.Errorf("read messages: the columns are %q instead of %q (%w)", header, messageColumns, err)
	}
	var all []Message
	for number := 2; ; number++ {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read messages: %w", err)
		}
		var n [10]int64
		for i, field := range fields[keyColumns:] {
			if field == "" {
				continue
			}
			if n[i], err = strconv.ParseInt(field, 10, 64); err != nil {
				return nil, fmt.Errorf("read messages: line %d: %w", number, err)
			}
		}
		all = append(all, Message{Talker: int(n[0]), Sequence: uint32(n[1]), Txtime: n[2], SendStart: n[3], SendEnd: n[4], Departed: n[5],
			Wire: n[6], Arrival: n[7], Errno: int(n[8]), Asked: n[9]})
	}
}
