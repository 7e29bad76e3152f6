// SPDX-License-Identifier: Apache-2.0

package chrony

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/facebook/time/ntp/chrony"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// answerer answers at a socket what answer makes of a request; nil: nothing.
func answerer(t *testing.T, answer func(request []byte) []byte) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "chrony")
	testlab.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "chronyd.sock")
	connection, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	testlab.Must(t, err)
	t.Cleanup(func() { connection.Close() })
	go func() {
		data := make([]byte, 2048)
		for {
			n, from, err := connection.ReadFromUnix(data)
			if err != nil {
				return
			}
			if reply := answer(data[:n]); reply != nil {
				_, _ = connection.WriteToUnix(reply, from)
			}
		}
	}()
	return path
}

// tracking is an answer of chronyd 4 (candm.h, protocol 6): a head of 28 bytes, and the fields in network order.
func tracking(leap uint16, reference uint32, correction, lastOffset, delay, dispersion, skewPPM float64) []byte {
	var out bytes.Buffer
	put := func(values ...any) {
		for _, value := range values {
			_ = binary.Write(&out, binary.BigEndian, value)
		}
	}
	put(uint8(6), uint8(2), [2]uint8{}, uint16(33), uint16(5), uint16(0), [3]uint16{}, uint32(1), [2]uint32{})
	put(reference, [16]uint8{192, 0, 2, 1}, uint16(1), uint16(0), uint16(2), leap, [3]uint32{0, 1_800_000_000, 0})
	for _, value := range []float64{correction, lastOffset, 0, 0, 0, skewPPM, delay, dispersion, 16} {
		put(float(value))
	}
	return out.Bytes()
}

// float is chronyd's: 7 bits of exponent, 25 of coefficient.
func float(value float64) uint32 {
	if value == 0 {
		return 0
	}
	fraction, exponent := math.Frexp(value)
	const bits = 25
	return uint32((exponent+1)&0x7f)<<bits | uint32(int32(fraction*(1<<(bits-1))))&(1<<bits-1) //nolint:gosec // what the format has
}

func TestTrackingIsUnderstood(t *testing.T) {
	t.Parallel()
	path := answerer(t, func([]byte) []byte { return tracking(0, 0xc0000201, 0.00001, -0.00003, 0.002, 0.0005, 0.25) })
	got, err := Ask(t.Context(), path)
	testlab.Must(t, err)
	near := func(got, want time.Duration) bool { return (got - want).Abs() < 10 }
	if !got.Synchronized || got.Reference != "192.0.2.1" || !near(got.Offset, -30*time.Microsecond) || !near(got.RootDelay, 2*time.Millisecond) ||
		!near(got.RootDispersion, 500*time.Microsecond) || got.SkewPPB != 250 || got.Updated.Unix() != 1_800_000_000 {
		t.Errorf("got %+v", got)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "ktsn-*")); err != nil || len(left) > 0 {
		t.Errorf("our socket is left: %v, %v", left, err)
	}
}

func TestAChronydWithoutASourceIsNotSynchronized(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string][]byte{
		"by its leap status": tracking(3, 0xc0000201, 0, 0, 0, 0, 0),
		"by its reference":   tracking(0, 0, 0, 0, 0, 0, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := Ask(t.Context(), answerer(t, func([]byte) []byte { return answer })); err != nil || got.Synchronized {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestWhatIsNoChronydIsAnError(t *testing.T) {
	t.Parallel()
	good := tracking(0, 1, 0, 0, 0, 0, 0)
	sources := bytes.Clone(good)
	sources[7] = 2 // the reply to another request
	for name, answer := range map[string]func([]byte) []byte{
		"silence":                  func([]byte) []byte { return nil },
		"an answer that is cut":    func([]byte) []byte { return good[:40] },
		"one byte":                 func([]byte) []byte { return []byte{6} },
		"the request":              func(request []byte) []byte { return request },
		"garbage":                  func([]byte) []byte { return bytes.Repeat([]byte{0xff}, 1500) },
		"another request's answer": func([]byte) []byte { return sources },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := Ask(t.Context(), answerer(t, answer)); err == nil {
				t.Errorf("got %+v", got)
			}
		})
	}
	t.Run("nobody", func(t *testing.T) {
		t.Parallel()
		if _, err := Ask(t.Context(), filepath.Join(t.TempDir(), "chronyd.sock")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}

func TestValuesThatAreNoneAreLarge(t *testing.T) {
	for name, test := range map[string]struct {
		value float64
		want  time.Duration
	}{
		"no number":  {math.NaN(), 1e9 * time.Second},
		"infinite":   {math.Inf(1), 1e9 * time.Second},
		"far behind": {math.Inf(-1), -1e9 * time.Second},
		"usual":      {0.5, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			if got := seconds(test.value); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(tracking(0, 0xc0000201, 0.00001, -0.00003, 0.002, 0.0005, 0.25))
	f.Add([]byte{6, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		defer func() {
			if caught := recover(); caught != nil {
				t.Logf("facebook/time panics, which Ask contains: %v", caught)
			}
		}()
		client := chrony.Client{Connection: &canned{data}}
		answer, err := client.Communicate(chrony.NewTrackingPacket())
		if err != nil {
			return
		}
		if reply, isTracking := answer.(*chrony.ReplyTracking); isTracking {
			if got := read(reply); got.RootDelay < 0 || got.RootDispersion < 0 || got.SkewPPB < 0 {
				t.Errorf("got %+v", got)
			}
		}
	})
}

// canned is a connection that answers what it holds.
type canned struct{ data []byte }

func (c *canned) Read(into []byte) (int, error)     { return copy(into, c.data), nil }
func (c *canned) Write(written []byte) (int, error) { return len(written), nil }

// TestAskAtOnce: each asker has its own socket and keeps it. Sockets of killed processes are removed.
func TestAskAtOnce(t *testing.T) {
	t.Parallel()
	const askers = 4
	var asked sync.WaitGroup
	asked.Add(askers)
	path := answerer(t, func([]byte) []byte {
		asked.Done()
		return tracking(0, 0xc0000201, 0, 0, 0, 0, 0)
	})
	left := filepath.Join(filepath.Dir(path), socketPrefix+"left.sock")
	dead, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: left, Net: "unixgram"})
	testlab.Must(t, err)
	dead.Close()
	results := make(chan error, askers)
	var ended sync.WaitGroup
	for range askers {
		ended.Go(func() {
			connection, remove, err := dial(t.Context(), path)
			if err != nil {
				results <- err
				return
			}
			defer remove()
			defer connection.Close()
			_, err = connection.Write([]byte("request"))
			asked.Wait() // all have dialled
			if err == nil {
				_ = connection.SetReadDeadline(time.Now().Add(time.Second))
				_, err = connection.Read(make([]byte, 2048))
			}
			results <- err
		})
	}
	ended.Wait() // then all have removed their sockets
	for range askers {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), socketPrefix+"*")); len(names) > 0 {
		t.Errorf("sockets are left: %v", names)
	}
}
