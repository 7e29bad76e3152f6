// SPDX-License-Identifier: Apache-2.0

package guestclock

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PageBytes is the size of the memory, a power of two as the device asks for.
const PageBytes = 8 << 20

// mostSamples are those that the memory has room for: an hour and a half.
const mostSamples = (PageBytes - 4096) / int(unsafe.Sizeof(Sample{}))

// SampleEvery is how often a guest reads its clock.
const SampleEvery = 40 * time.Millisecond

// Sample is what a guest's clocks said, each between two reads of its counter.
type Sample struct {
	Before, Between, After uint64
	// TAI was read from Before to Between, Monotonic from Between to After, in nanoseconds.
	TAI, Monotonic int64
	_              [24]byte
}

// Page is the memory. One writer for each field.
type Page struct {
	// ask is the number of the host's last question. A cache line for each, for they are polled.
	ask atomic.Uint64
	_   [56]byte
	// answered is the number of the last question that the guest answered, counter what its counter was.
	answered atomic.Uint64
	counter  atomic.Uint64
	_        [48]byte
	// written counts the samples: it is stored after a sample is complete.
	written atomic.Uint64
	_       [4096 - 136]byte
	samples [mostSamples]Sample
}

// Map maps the file, which has PageBytes.
func Map(path string) (*Page, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	memory, err := unix.Mmap(int(file.Fd()), 0, PageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return (*Page)(unsafe.Pointer(unsafe.SliceData(memory))), nil
}

// ErrFull is said of a page without room for another sample.
var ErrFull = errors.New("no room for another sample")

// Write adds a sample.
func (p *Page) Write(sample Sample) error {
	at := p.written.Load()
	if at == uint64(len(p.samples)) {
		return ErrFull
	}
	p.samples[at] = sample
	p.written.Store(at + 1)
	return nil
}

// Samples are those that have been written, from that one on. The memory stays the page's.
func (p *Page) Samples(from int) []Sample {
	return p.samples[from:p.written.Load()]
}

// Answer answers so many questions, the guest's part of exchanges. It spins.
func (p *Page) Answer(questions int, patience time.Duration) error {
	last := p.answered.Load()
	for until := time.Now().Add(patience); questions > 0; {
		asked := p.ask.Load()
		if asked == last {
			if time.Now().After(until) {
				return fmt.Errorf("%d questions were not asked within %v", questions, patience)
			}
			continue
		}
		p.counter.Store(TSC())
		p.answered.Store(asked)
		last = asked
		questions--
	}
	return nil
}

// Exchange is what the host's counter was before it asked and after the answer was there, and the guest's between the two.
type Exchange struct{ Before, Guest, After uint64 }

// Ask asks so many questions, the host's part. It spins.
func (p *Page) Ask(questions int, patience time.Duration) ([]Exchange, error) {
	all := make([]Exchange, 0, questions)
	until := time.Now().Add(patience)
	for range questions {
		number := p.ask.Load() + 1
		one := Exchange{Before: TSC()}
		p.ask.Store(number)
		for p.answered.Load() != number {
			if time.Now().After(until) {
				return nil, fmt.Errorf("%d of %d questions were answered within %v", len(all), questions, patience)
			}
		}
		one.After = TSC()
		one.Guest = p.counter.Load()
		all = append(all, one)
	}
	return all, nil
}
