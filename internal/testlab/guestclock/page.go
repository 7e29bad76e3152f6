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

// PageBytes is the size of the memory. The device needs a power of two.
const PageBytes = 8 << 20

// maxSamples is the room in the memory: an hour and a half.
const maxSamples = (PageBytes - 4096) / int(unsafe.Sizeof(Sample{}))

// SampleEvery is the interval between two readings of a guest's clock.
const SampleEvery = 40 * time.Millisecond

// Sample is a reading of a guest's clocks, each between two reads of its counter.
type Sample struct {
	Before, Between, After uint64
	// TAI was read from Before to Between, Monotonic from Between to After, in nanoseconds.
	TAI, Monotonic int64
	_              [24]byte
}

// Page is the shared memory. Each field has one writer.
type Page struct {
	// ask is the number of the host's last question. Polled fields have a cache line each.
	ask atomic.Uint64
	_   [56]byte
	// answered is the number of the last question that the guest answered, counter its counter then.
	answered atomic.Uint64
	counter  atomic.Uint64
	_        [48]byte
	// written counts the samples. It is stored after a sample is complete.
	written atomic.Uint64
	_       [4096 - 136]byte
	samples [maxSamples]Sample
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

// ErrFull is returned if a page has no room for another sample.
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

// Samples returns the written samples from an index on. The memory belongs to the page.
func (p *Page) Samples(from int) []Sample {
	return p.samples[from:p.written.Load()]
}

// Answer answers a number of questions, the guest's part of exchanges. It spins.
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

// Exchange has the host's counter before the question and after the answer, and the guest's in between.
type Exchange struct{ Before, Guest, After uint64 }

// Ask asks a number of questions, the host's part of exchanges. It spins.
func (p *Page) Ask(questions int, patience time.Duration) ([]Exchange, error) {
	all := make([]Exchange, 0, questions)
	until := time.Now().Add(patience)
	for range questions {
		number := p.ask.Load() + 1
		exchange := Exchange{Before: TSC()}
		p.ask.Store(number)
		for p.answered.Load() != number {
			if time.Now().After(until) {
				return nil, fmt.Errorf("%d of %d questions were answered within %v", len(all), questions, patience)
			}
		}
		exchange.After = TSC()
		exchange.Guest = p.counter.Load()
		all = append(all, exchange)
	}
	return all, nil
}
