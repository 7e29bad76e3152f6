// SPDX-License-Identifier: Apache-2.0

package results

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// messageColumns opens every CSV file of messages.
const messageColumns = "path,workload,payload_bytes,alternation,sequence,txtime_ns,send_start_ns,send_end_ns," +
	"departed_ns,wire_ns,arrival_ns,errno"

// Message is the life of one message. Times are nanoseconds of CLOCK_TAI; 0 means not observed.
type Message struct {
	Sequence  uint32
	Txtime    int64
	SendStart int64
	SendEnd   int64
	// Departed is ktsnd's, Wire the tap's, Arrival the listener's time.
	Departed int64
	Wire     int64
	Arrival  int64
	Errno    int
}

// MessageWriter writes messages as CSV. One goroutine.
type MessageWriter struct {
	out *bufio.Writer
}

// NewMessageWriter writes the header line to out.
func NewMessageWriter(out io.Writer) *MessageWriter {
	w := &MessageWriter{bufio.NewWriter(out)}
	_, _ = w.out.WriteString(messageColumns + "\n") // an error stays until Flush
	return w
}

// Write writes the messages of one alternation, counted from 1, of a run. Times that were not observed
// stay empty.
func (w *MessageWriter) Write(path, workload string, payloadBytes, alternation int, messages []Message) error {
	opening := strings.Join([]string{path, workload, strconv.Itoa(payloadBytes), strconv.Itoa(alternation)}, ",")
	for _, message := range messages {
		line := append(w.out.AvailableBuffer(), opening...)
		line = append(line, ',')
		line = strconv.AppendUint(line, uint64(message.Sequence), 10)
		for _, observed := range []int64{message.Txtime, message.SendStart, message.SendEnd,
			message.Departed, message.Wire, message.Arrival} {
			line = append(line, ',')
			if observed != 0 {
				line = strconv.AppendInt(line, observed, 10)
			}
		}
		line = append(line, ',')
		line = strconv.AppendInt(line, int64(message.Errno), 10)
		line = append(line, '\n')
		if _, err := w.out.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// Flush hands everything written so far to the file.
func (w *MessageWriter) Flush() error {
	return w.out.Flush()
}
