// SPDX-License-Identifier: Apache-2.0

package tsnperf

import (
	"encoding/hex"
	"errors"
	"testing"
)

func TestDecodeMessage(t *testing.T) {
	const header = "54534e50" + "01" + "0b" + "0000" + "00000007" + "00000102" + "17979cfe362a0000" + "00000040"
	for name, test := range map[string]struct {
		payload string
		want    Message
		err     error
	}{
		"a whole header": {header, Message{Clock: 11, RunID: 7, Sequence: 258,
			Txtime: 1700000000000000000, PayloadBytes: 64}, nil},
		"bytes behind it do not matter": {header + "ffff", Message{Clock: 11, RunID: 7, Sequence: 258,
			Txtime: 1700000000000000000, PayloadBytes: 64}, nil},
		"a short header": {"5473" + "0007" + "aa" + "000102" + "97979cfe362a0000", Message{Clock: 11, RunID: 7, Sequence: 258,
			Txtime: 1700000000000000000}, nil},
		"a byte too short for one": {"5473" + "0007" + "aa" + "000102" + "97979cfe362a00", Message{}, ErrNotAMessage},
		"a byte too short":         {header[:54], Message{}, ErrNotAMessage},
		"another magic":            {"55" + header[2:], Message{}, ErrNotAMessage},
		"nothing whatsoever":       {"", Message{}, ErrNotAMessage},
	} {
		t.Run(name, func(t *testing.T) {
			payload, err := hex.DecodeString(test.payload)
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeMessage(payload)
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	t.Run("another version is not guessed at", func(t *testing.T) {
		payload, _ := hex.DecodeString(header[:8] + "02" + header[10:])
		if got, err := DecodeMessage(payload); err == nil {
			t.Errorf("read as %+v", got)
		}
	})
}
