// SPDX-License-Identifier: Apache-2.0

package tsnperf

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func TestReadTalker(t *testing.T) {
	got, err := ReadTalker(strings.NewReader(talkerColumns + "\n0,1000,700,710,720,0\n1,2000,1700,1710,1720,105\n"))
	want := []Sent{{0, 1000, 700, 710, 720, 0, 0}, {1, 2000, 1700, 1710, 1720, 105, 0}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestWriteTalker(t *testing.T) {
	want := []Sent{{0, 1000, 700, 710, 720, 0, 0}, {1, 2000, 1700, 1710, 1720, 105, 0}}
	var text strings.Builder
	if err := WriteTalker(&text, want); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadTalker(strings.NewReader(text.String())); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestReadListener(t *testing.T) {
	got, err := ReadListener(strings.NewReader(listenerColumns + "\n3,1000,1009,64,10.42.1.2,7000,1\n4,2000,2008,64,10.42.1.2,7000,0\n"))
	source := netip.MustParseAddrPort("10.42.1.2:7000")
	want := []Received{{3, 1000, 1009, 64, source, true}, {4, 2000, 2008, 64, source, false}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestInvalidRecordsAreRejected(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"an empty file":        {"", "empty"},
		"other columns":        {"sequence,when\n", "columns"},
		"a line cut short":     {listenerColumns + "\n1,2,3", "line 2 has 3 fields"},
		"a word for a number":  {listenerColumns + "\n1,2,soon,64,10.0.0.1,7,1\n", "line 2"},
		"no address":           {listenerColumns + "\n1,2,3,64,here,7,1\n", "line 2"},
		"a port out of range":  {listenerColumns + "\n1,2,3,64,10.0.0.1,70000,1\n", "line 2"},
		"neither valid nor in": {listenerColumns + "\n1,2,3,64,10.0.0.1,7,2\n", "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadListener(strings.NewReader(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
