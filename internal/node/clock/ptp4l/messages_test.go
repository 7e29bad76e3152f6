// SPDX-License-Identifier: Apache-2.0

package ptp4l

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	ptp "github.com/facebook/time/ptp/protocol"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// asker is to whom the recorded messages are.
var asker = ptp.PortIdentity{ClockIdentity: 0xa1a2a3a4a5a6a7a8, PortNumber: 7}

// recorded is what Debian's ptp4l 3.1.1 sent, running free between two network namespaces.
var recorded = map[string]string{
	"DEFAULT_DATA_SET":         "0d02004a00000000000000000000000000000000feb0defffe00ffc100000001047fa1a2a3a4a5a6a7a80007000002000001001620000300000180fffeffff80feb0defffe00ffc10000",
	"CURRENT_DATA_SET":         "0d02004800000000000000000000000000000000feb0defffe00ffc100000001047fa1a2a3a4a5a6a7a80007000002000001001420010001000000000fed0000000000002d750000",
	"PARENT_DATA_SET":          "0d02005600000000000000000000000000000000feb0defffe00ffc100000001047fa1a2a3a4a5a6a7a8000700000200000100222002fe8a51fffe2627a200010000ffff7fffffff80f8feffff80fe8a51fffe2627a2",
	"TIME_PROPERTIES_DATA_SET": "0d02003a00000000000000000000000000000000feb0defffe00ffc100000001047fa1a2a3a4a5a6a7a8000700000200000100062003002500a0",
	"TIME_STATUS_NP":           "0d02006800000000000000000000000000000000feb0defffe00ffc100000001047fa1a2a3a4a5a6a7a800070000020000010034c000ffffffffffffde5818eac2c4bc9720080000000000000000000000000000000000000000000000000001fe8a51fffe2627a2",
	"PORT_PROPERTIES_NP":       "0d02004800000000000000000000000000000000feb0defffe00ffc100010001047fa1a2a3a4a5a6a7a800070000020000010014c004feb0defffe00ffc100010800046574683000",
	"SUBSCRIBE_EVENTS_NP":      "0d02007800000000000000000000000000000000feb0defffe00ffc100000001047fa1a2a3a4a5a6a7a800070000020000010044c0030005010000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
	"MANAGEMENT_ERROR_STATUS":  "0d02003c00000000000000000000000000000000feb0defffe00ffc100000001047fa1a2a3a4a5a6a7a8000700000200000200080006201000000000",
	"PORT_DATA_SET":            "0d02005000000000000000000000000000000000feb0defffe00ffc100010001047fa1a2a3a4a5a6a7a80007000002000001001c2004feb0defffe00ffc1000108000000000000000000010300010002",
}

// bytesOf returns a recorded message, at its full length: of the long one the zeroes at its end were left out.
func bytesOf(t testing.TB, name string) []byte {
	t.Helper()
	data, err := hex.DecodeString(recorded[name])
	testlab.Must(t, err)
	if length := int(data[2])<<8 | int(data[3]); len(data) < length {
		data = append(data, make([]byte, length-len(data))...)
	}
	return data
}

func TestWhatPtp4lSaysIsUnderstood(t *testing.T) {
	var answers []*ptp.Management
	var rare slow
	for _, name := range []string{"DEFAULT_DATA_SET", "CURRENT_DATA_SET", "PARENT_DATA_SET", "TIME_PROPERTIES_DATA_SET", "TIME_STATUS_NP", "PORT_PROPERTIES_NP"} {
		message, err := decode(bytesOf(t, name), asker)
		if err != nil || message == nil {
			t.Fatalf("%s: %v, %v", name, message, err)
		}
		answers = append(answers, message)
	}
	status := &Status{}
	status.take(answers)
	rare.take(answers)
	rare.put(status)
	want := Status{Identity: "feb0de.fffe.00ffc1", Grandmaster: "fe8a51.fffe.2627a2", Offset: -8616, Measured: 0x18eac2c4bc972008, PathDelay: 11637,
		StepsRemoved: 1, Class: 248, Accuracy: 0xfe, UTCOffset: 37}
	port := Port{Number: 1, Interface: "eth0", State: Uncalibrated}
	if len(status.Ports) != 1 || status.Ports[0] != port {
		t.Errorf("ports %+v, want %+v", status.Ports, port)
	}
	status.Ports = nil
	if got, want := *status, want; !equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !status.Follows() {
		t.Error("a clock with another's grandmaster follows it")
	}
}

func equal(a, b Status) bool {
	return a.Identity == b.Identity && a.Grandmaster == b.Grandmaster && a.Offset == b.Offset && a.Measured == b.Measured && a.PathDelay == b.PathDelay &&
		a.StepsRemoved == b.StepsRemoved && a.Class == b.Class && a.Accuracy == b.Accuracy && a.UTCOffset == b.UTCOffset &&
		a.UTCOffsetValid == b.UTCOffsetValid && a.PTPTimescale == b.PTPTimescale
}

func TestASubscriptionIsWhatPtp4lGivesBack(t *testing.T) {
	message, err := Request(asker, Address{}, 1, ptp.SET, idSubscribeEvents, subscribe(5))
	testlab.Must(t, err)
	answer := bytesOf(t, "SUBSCRIBE_EVENTS_NP")
	if len(message) != len(answer) || !bytes.Equal(message[lengthOfHead:], answer[lengthOfHead:]) {
		t.Errorf("subscribed by\n%x\nptp4l gave back\n%x", message, answer)
	}
}

func TestBadMessagesAreErrors(t *testing.T) {
	good := bytesOf(t, "TIME_STATUS_NP")
	changed := func(at int, value byte) []byte {
		data := bytes.Clone(good)
		data[at] = value
		return data
	}
	for name, data := range map[string][]byte{
		"nothing":                          {},
		"one byte":                         {0x0d},
		"only the header":                  good[:34],
		"a TLV that is cut":                good[:70],
		"a message of another type":        changed(0, 0x0b),
		"a length beyond the end":          changed(2, 0xff),
		"a TLV's length beyond the end":    changed(50, 0x7f),
		"a TLV of no known type":           changed(49, 0x77),
		"an identifier that nobody knows":  changed(52, 0x1f),
		"an error in place of an answer":   bytesOf(t, "MANAGEMENT_ERROR_STATUS"),
		"a name longer than its TLV":       cutName(t),
		"a table that says that it is big": append(append([]byte{}, changed(53, 0x08)[:54]...), 0xff, 0xff),
	} {
		t.Run(name, func(t *testing.T) {
			if message, err := decode(data, asker); err == nil {
				t.Errorf("decoded as %+v", message)
			}
		})
	}
}

func cutName(t *testing.T) []byte {
	data := bytesOf(t, "PORT_PROPERTIES_NP")
	data[len(data)-6] = 0xff
	return data
}

func TestMessagesForOthersAreLeftAlone(t *testing.T) {
	other := asker
	other.PortNumber++
	request, err := Request(asker, Address{}, 1, ptp.GET, ptp.IDTimeStatusNP, bytesOf(t, "TIME_STATUS_NP")[54:])
	testlab.Must(t, err)
	for name, test := range map[string]struct {
		data []byte
		to   ptp.PortIdentity
	}{
		"an answer to another program": {bytesOf(t, "TIME_STATUS_NP"), other},
		"a request":                    {request, ptp.DefaultTargetPortIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			if message, err := decode(test.data, test.to); err != nil || message != nil {
				t.Errorf("got %v, %v", message, err)
			}
		})
	}
}

func TestAccuraciesAreThoseOfTheStandard(t *testing.T) {
	for name, test := range map[string]struct {
		accuracy uint8
		want     time.Duration
		known    bool
	}{
		"25 ns":                   {0x20, 25 * time.Nanosecond, true},
		"1 us":                    {0x23, time.Microsecond, true},
		"10 s":                    {0x30, 10 * time.Second, true},
		"picoseconds, rounded up": {0x17, 25 * time.Nanosecond, true},
		"more than 10 s":          {0x31, 0, false},
		"unknown":                 {0xfe, 0, false},
		"reserved":                {0x00, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, known := AccuracyOf(test.accuracy); got != test.want || known != test.known {
				t.Errorf("got %v, %v, want %v, %v", got, known, test.want, test.known)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for name := range recorded {
		f.Add(bytesOf(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		message, err := decode(data, asker)
		if err != nil || message == nil {
			return
		}
		status, rare := &Status{}, &slow{}
		status.take([]*ptp.Management{message})
		rare.take([]*ptp.Management{message})
		rare.put(status)
		for _, port := range status.Ports {
			if len(port.Interface) > 15 || port.State == "" {
				t.Errorf("port %+v", port)
			}
		}
	})
}
