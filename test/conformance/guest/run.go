// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"sort"

	"github.com/kubernetsn/kubernetsn/test/conformance/scenario"
)

// preparation is the time for everything before the first qdisc is created, in nanoseconds.
const preparation = 100_000_000

// event is an action at a time relative to the scenario's start.
type event struct {
	at int64
	do func() error
}

// stage has the device, capture and socket of a scenario.
type stage struct {
	what    *scenario.Scenario
	report  *scenario.Report
	capture *capture
	sender  *sender
	start   int64
}

// runOne plays a scenario on a new device.
func runOne(what *scenario.Scenario, report *scenario.Report) (err error) {
	device, err := newDevice()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, device.remove()) }()
	capture, err := openCapture()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, capture.close()) }()
	sender, err := openSender(what)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sender.close()) }()
	begin, err := now()
	if err != nil {
		return err
	}
	stage := &stage{what, report, capture, sender, begin + preparation - what.SetUpAt()}
	return errors.Join(stage.play(), stage.collect())
}

// play performs all events at their times.
func (s *stage) play() error {
	events := s.events()
	sort.SliceStable(events, func(i, j int) bool { return events[i].at < events[j].at })
	for _, event := range append(events, event{s.what.Until, func() error { return nil }}) {
		latest, err := sleepUntil(s.start + event.at)
		s.report.Latest = max(s.report.Latest, latest)
		if err := errors.Join(err, event.do()); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) events() []event {
	var events []event
	for i := range max(len(s.what.Schedules), 1) {
		at := s.what.SetUpAt()
		if i > 0 {
			at = s.what.Schedules[i].At
		}
		events = append(events, event{at, func() error { return s.configure(i) }})
	}
	for _, message := range s.what.Messages {
		events = append(events, event{message.HandedOver, func() error { return s.send(message) }})
	}
	return events
}

func (s *stage) configure(schedule int) error {
	if err := configure(s.what.Commands(deviceName, schedule, s.start)); err != nil {
		return err
	}
	done, err := now()
	s.report.Configured = append(s.report.Configured, done-s.start)
	return err
}

func (s *stage) send(message scenario.Message) error {
	at, err := now()
	if err != nil {
		return err
	}
	refused, err := s.sender.send(message, s.start)
	s.report.Sent = append(s.report.Sent, scenario.Sent{ID: message.ID, At: at - s.start, Refused: refused})
	return err
}

func (s *stage) collect() (err error) {
	if s.report.Departures, err = s.capture.departures(s.start); err != nil {
		return err
	}
	if s.report.Reported, err = s.sender.reported(); err != nil {
		return err
	}
	s.report.Held, err = backlog()
	return err
}
