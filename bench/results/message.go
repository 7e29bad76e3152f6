// SPDX-License-Identifier: Apache-2.0

package results

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// messageColumns is the header of every CSV file of messages.
const messageColumns = "path,workload,payload_bytes,cycle_ns,alternation,talker,sequence,txtime_ns,send_start_ns," +
	"send_end_ns,departed_ns,wire_ns,arrival_ns,errno,asked_ns"

// earlierColumns is the header of older benches.
var earlierColumns = strings.TrimSuffix(messageColumns, ",asked_ns")

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
		message := &messages[i]
		line := append(w.out.AvailableBuffer(), opening...)
		line = append(line, ',')
		line = strconv.AppendInt(line, int64(message.Talker), 10)
		line = append(line, ',')
		line = strconv.AppendUint(line, uint64(message.Sequence), 10)
		for _, observed := range [...]int64{message.Txtime, message.SendStart, message.SendEnd,
			message.Departed, message.Wire, message.Arrival} {
			line = append(line, ',')
			if observed != 0 {
				line = strconv.AppendInt(line, observed, 10)
			}
		}
		line = append(line, ',')
		line = strconv.AppendInt(line, int64(message.Errno), 10)
		line = append(line, ',')
		if message.Asked != 0 {
			line = strconv.AppendInt(line, message.Asked, 10)
		}
		line = append(line, '\n')
		if _, err := w.out.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// Flush writes buffered data to the file.
func (w *MessageWriter) Flush() error {
	return w.out.Flush()
}

// ReadMessages reads one alternation in a MessageWriter's format, without the columns that are the same in all of its
// lines.
func ReadMessages(from *bufio.Reader) ([]Message, error) {
	header, err := from.ReadString('\n')
	columns := strings.TrimSuffix(header, "\n")
	if err != nil || columns != messageColumns && columns != earlierColumns {
		return nil, fmt.Errorf("read messages: the columns are %q instead of %q", header, messageColumns)
	}
	count := strings.Count(columns, ",") + 1 - keyColumns
	var all []Message
	for number := 2; ; number++ {
		line, err := from.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read messages: line %d: %w", number, err)
		}
		message, ok := parseMessage(bytes.TrimSuffix(line, []byte("\n")), count)
		if !ok {
			return nil, fmt.Errorf("read messages: line %d is %q", number, line)
		}
		all = append(all, message)
	}
}

// parseMessage reads one line, quickly, because there can be millions.
func parseMessage(line []byte, columns int) (message Message, ok bool) {
	for range keyColumns {
		_, rest, hasComma := bytes.Cut(line, []byte(","))
		if !hasComma {
			return message, false
		}
		line = rest
	}
	var numbers [10]int64
	column := 0
	var number int64
	negative := false
	for _, character := range line {
		switch {
		case character >= '0' && character <= '9':
			number = 10*number + int64(character-'0')
		case character == '-' && number == 0:
			negative = true
		case character == ',' && column < columns-1:
			numbers[column] = signed(number, negative)
			column, number, negative = column+1, 0, false
		default:
			return message, false
		}
	}
	numbers[column] = signed(number, negative)
	return Message{Talker: int(numbers[0]), Sequence: uint32(numbers[1]), Txtime: numbers[2], SendStart: numbers[3],
			SendEnd: numbers[4], Departed: numbers[5], Wire: numbers[6], Arrival: numbers[7], Errno: int(numbers[8]), Asked: numbers[9]},
		column == columns-1
}

func signed(number int64, negative bool) int64 {
	if negative {
		return -number
	}
	return number
}
