// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// A run of the program without a wire takes frames of these lengths: it wants whole headers of IP.
const (
	minRun = 14 + 40
	maxRun = 3000
)

// FuzzFrames compares the program's verdicts with those of takes, which is written from the standards. With repair the
// checksums of the frame are corrected first.
func FuzzFrames(f *testing.F) {
	w := newWorld(f)
	w.openRing(f, 1<<16)
	positions := positionsOf(f, w.ring)
	for _, seed := range w.seeds() {
		f.Add(seed.bytes(), false)
		f.Add(seed.bytes(), true)
	}
	f.Fuzz(func(t *testing.T, frame []byte, repair bool) {
		if len(frame) < minRun || len(frame) > maxRun {
			t.Skip()
		}
		if repair {
			frame = repaired(frame)
		}
		verdict := w.run(t, frame)
		positions.drain()
		if want := map[bool]int32{true: taken, false: left}[w.takes(frame)]; verdict != want {
			t.Errorf("the verdict was %d, want %d", verdict, want)
		}
	})
}

// positions are the ring's two pages in front of its records.
type positions struct{ consumer, producer []byte }

func positionsOf(t testing.TB, ring *ebpf.Map) *positions {
	t.Helper()
	page := os.Getpagesize()
	consumer, errConsumer := unix.Mmap(ring.FD(), 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	producer, errProducer := unix.Mmap(ring.FD(), int64(page), page, unix.PROT_READ, unix.MAP_SHARED)
	testlab.Must(t, errors.Join(errConsumer, errProducer))
	t.Cleanup(func() {
		if err := errors.Join(unix.Munmap(consumer), unix.Munmap(producer)); err != nil {
			t.Error(err)
		}
	})
	return &positions{consumer, producer}
}

// drain empties the ring as if everything had been read.
func (p *positions) drain() { copy(p.consumer[:8], p.producer[:8]) }

// seeds are frames of each kind.
func (w *world) seeds() []frame {
	all := []frame{w.valid(), w.valid6()}
	for _, change := range []func(*frame){
		func(f *frame) { f.payload = nil },
		func(f *frame) { f.payload = filled(300) },
		func(f *frame) { f.noCheck = true },
		func(f *frame) { f.fragment = 0x2000 },
		func(f *frame) { f.options = []byte{1, 1, 1, 0} },
		func(f *frame) { f.udpLess = 1 },
		func(f *frame) { f.ipLess = 1 },
		func(f *frame) { f.trailer = make([]byte, 18) },
		func(f *frame) { f.cut = 30 },
	} {
		for _, seed := range []frame{w.valid(), w.valid6()} {
			change(&seed)
			all = append(all, seed)
		}
	}
	return all
}
