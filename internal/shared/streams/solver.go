// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/control"
)

// job is a stream to place.
type job struct {
	*Stream
	intervalNs int64
	class      uint8
	queueing   bool
	routes     []route
	// placed is nil while the stream has no place.
	placed *placement
	// fixed streams are running and keep their place.
	fixed bool
	// weight is the cost of displacing the stream; it grows with each displacement that the stream needs itself.
	weight int
}

// placement has a start for each frame and hop, relative to the beginning of the interval.
type placement struct {
	route  *route
	starts [][]int64
}

type solver struct {
	*network
	jobs []job
	// queues has for each port, and each interval and class of the streams that may use it, the times in which frames of the class may be in
	// the queue or on the wire. These times must not overlap.
	queues []map[queueKey]*timeline
	// windows has for each port of several classes, and each interval, the windows of all classes. Windows of different classes must not
	// overlap; the queues keep those of a class apart.
	windows []map[int64]*timeline
	random  *rand.Rand
}

type queueKey struct {
	intervalNs int64
	class      uint8
}

// Solve assigns offsets and gate control lists to all streams of the input. Streams of the plan running, which may be nil, keep their place if
// the input has them unchanged; it is a fault if the topology or the base time does not allow that. The plan is verified. The input gets its
// defaults. Faults of the input are *Error; a *NoPlaceError means that no schedule was found before the context ended or the search was
// exhausted.
func Solve(ctx context.Context, in *Input, running *Plan) (*Plan, error) {
	n, err := in.check()
	if err != nil {
		return nil, err
	}
	s := &solver{network: n, random: rand.New(rand.NewPCG(1, 1))}
	if err := s.prepare(ctx, in.Streams); err != nil {
		return nil, err
	}
	if running != nil {
		if err := s.keep(ctx, running, in.BaseTime); err != nil {
			return nil, err
		}
	}
	if err := s.search(ctx); err != nil {
		return nil, err
	}
	plan, err := s.plan(in)
	if err != nil {
		return nil, err
	}
	if err := Verify(in, plan); err != nil {
		return nil, fmt.Errorf("verify the schedule (a defect of ktsn): %w", err)
	}
	return plan, nil
}

// NoPlaceError names the stream that has no place in a schedule.
type NoPlaceError struct {
	Stream, Port string
	// BusyPercent is the share of the time in which the port, the busiest of the stream's, is used by other streams, or its queue by streams of
	// the class.
	BusyPercent int64
	Reason      string
}

func (e *NoPlaceError) Error() string {
	return fmt.Sprintf("no place for stream %s: %s; port %s or its queue is used %d %% of the time by other streams: raise the interval or "+
		"max-latency of streams there, let their class wait (topology.queueing-classes), use several classes, give min-frame-size of streams and min-delay "+
		"of bridges, or move streams to other links", e.Stream, e.Reason, e.Port, e.BusyPercent)
}

// prepare finds the routes, and rejects streams that no schedule can have.
func (s *solver) prepare(ctx context.Context, streams []Stream) error {
	for i := range streams {
		if ctx.Err() != nil {
			return fmt.Errorf("the time limit was over before the paths of stream %s, %d of %d, were found; raise --time-limit", streams[i].Name, i+1,
				len(streams))
		}
		field := fmt.Sprintf("streams[%d]", i)
		j := job{Stream: &streams[i], intervalNs: streams[i].Interval.Nanoseconds(), class: *streams[i].TrafficClass, weight: 1}
		j.queueing = slices.Contains(s.QueueingClasses, j.class)
		routes, err := s.routes(j.Stream)
		if err != nil {
			return err
		}
		for _, r := range routes {
			if r.latencyNs <= j.MaxLatencyNs {
				j.routes = append(j.routes, r)
			}
		}
		if len(j.routes) == 0 {
			return fault(field+".max-latency", "of stream %s is %d ns, and its frames take %d ns to the last listener: raise it, use faster links or "+
				"smaller frames", j.Name, j.MaxLatencyNs, routes[0].latencyNs)
		}
		for k := range j.routes {
			for _, h := range j.routes[k].hops {
				frames, port := int64(j.MaxFramesPerInterval), s.ports[h.port].name
				if need := h.occupyNs * frames; need > j.intervalNs {
					return fault(field+".interval", "of stream %s is %d ns, and its frames occupy %s for %d ns with guard bands: raise the interval, or send "+
						"fewer or smaller frames", j.Name, j.intervalNs, port, need)
				}
				if need := (h.queueNs + h.occupyNs) * frames; need > j.intervalNs {
					return fault(field+".interval", "of stream %s is %d ns, and its frames, which may arrive early, occupy the queue of %s for %d ns: raise the "+
						"interval, send fewer frames, or give min-frame-size of the stream and min-delay of bridges", j.Name, j.intervalNs, port, need)
				}
			}
		}
		s.jobs = append(s.jobs, j)
	}
	if err := s.checkPorts(); err != nil {
		return err
	}
	s.queues, s.windows = make([]map[queueKey]*timeline, len(s.ports)), make([]map[int64]*timeline, len(s.ports))
	for i := range s.jobs {
		j := &s.jobs[i]
		for k := range j.routes {
			for _, h := range j.routes[k].hops {
				if s.queues[h.port] == nil {
					s.queues[h.port], s.windows[h.port] = map[queueKey]*timeline{}, map[int64]*timeline{}
				}
				s.queues[h.port][queueKey{j.intervalNs, j.class}] = &timeline{lengthNs: j.intervalNs}
			}
		}
	}
	for port, queues := range s.queues {
		classes := uint8(0)
		for key := range queues {
			classes |= 1 << key.class
		}
		for key := range queues {
			if bits.OnesCount8(classes) > 1 {
				s.windows[port][key.intervalNs] = &timeline{lengthNs: key.intervalNs}
			}
		}
	}
	return nil
}

// portUse is a stream that may use a port.
type portUse struct {
	job              int
	class            uint8
	occupyNs, heldNs int64 // by a window, and by the time in the queue with the window
	// always reports whether the stream has no other path.
	always bool
}

// checkPorts checks for each port the streams that may use it, together.
func (s *solver) checkPorts() *Error {
	uses := map[int][]portUse{}
	for i := range s.jobs {
		j := &s.jobs[i]
		for k := range j.routes {
			for _, h := range j.routes[k].hops {
				if u := uses[h.port]; len(u) == 0 || u[len(u)-1].job != i {
					uses[h.port] = append(u, portUse{i, j.class, h.occupyNs, h.queueNs + h.occupyNs, len(j.routes) == 1})
				}
			}
		}
	}
	for _, at := range sortedKeys(uses) {
		cycleNs, err := s.checkIntervals(s.ports[at].name, uses[at])
		if err != nil {
			return err
		}
		if err := s.checkLoad(s.ports[at].name, uses[at], cycleNs); err != nil {
			return err
		}
	}
	return nil
}

// checkIntervals returns the cycle of a port.
func (s *solver) checkIntervals(port string, uses []portUse) (int64, *Error) {
	first, longest := map[int64]int{}, map[queueKey]portUse{}
	for _, u := range uses {
		interval := s.jobs[u.job].intervalNs
		if _, exists := first[interval]; !exists {
			first[interval] = u.job
		}
		if key := (queueKey{interval, u.class}); u.always && longest[key].heldNs < u.heldNs {
			longest[key] = u
		}
	}
	intervals := sortedKeys(first)
	cycleNs := int64(1)
	for k, interval := range intervals {
		if cycleNs = lcm(cycleNs, interval, s.SupportedCycleMaxNs); cycleNs == 0 {
			// The cycle of this one with the current interval is the longest.
			other := slices.MaxFunc(intervals[:k], func(a, b int64) int { return cmp.Compare(a/gcd(a, interval), b/gcd(b, interval)) })
			return 0, fault(fmt.Sprintf("streams[%d].interval", first[interval]), "of stream %s is %d ns: with the intervals of other streams that may use port "+
				"%s, such as %d ns of stream %s, the cycle would exceed %d ns (topology.supported-cycle-max); use intervals that divide each other",
				s.jobs[first[interval]].Name, interval, port, other, s.jobs[first[other]].Name, s.SupportedCycleMaxNs)
		}
	}
	keys := slices.SortedFunc(maps.Keys(longest), func(a, b queueKey) int {
		return cmp.Or(cmp.Compare(a.intervalNs, b.intervalNs), cmp.Compare(a.class, b.class))
	})
	for k := range keys {
		for _, other := range keys[:k] {
			a, b := longest[other], longest[keys[k]]
			need, times, common := a.heldNs+b.heldNs, "times in the queue", gcd(keys[k].intervalNs, other.intervalNs)
			if a.class != b.class || a.occupyNs+b.occupyNs > common {
				need, times = a.occupyNs+b.occupyNs, "windows"
			}
			if need > common {
				return 0, fault(fmt.Sprintf("streams[%d].interval", b.job), "of stream %s is %d ns and that of stream %s %d ns: on %s they meet in each phase, "+
					"because their %s take %d ns and the greatest common divisor is %d ns; use intervals that divide each other", s.jobs[b.job].Name,
					keys[k].intervalNs, s.jobs[a.job].Name, other.intervalNs, port, times, need, common)
			}
		}
	}
	return cycleNs, nil
}

// checkLoad checks the windows of a port in its cycle.
func (s *solver) checkLoad(port string, uses []portUse, cycleNs int64) *Error {
	var windows, busyNs int64
	var queuedNs [control.TrafficClasses]int64
	var always []int
	for _, u := range uses {
		count := cycleNs / s.jobs[u.job].intervalNs * int64(s.jobs[u.job].MaxFramesPerInterval)
		windows += count
		if u.always {
			busyNs += count * u.occupyNs
			queuedNs[u.class] += count * u.heldNs
			always = append(always, u.job)
		}
	}
	compare := func(a, b portUse) int { return cmp.Compare(s.jobs[a.job].intervalNs, s.jobs[b.job].intervalNs) }
	shortest, longest := slices.MinFunc(uses, compare).job, slices.MaxFunc(uses, compare).job
	switch {
	case windows > maxWindows:
		return fault(fmt.Sprintf("streams[%d].interval", shortest), "of stream %s is %d ns, and that of stream %s %d ns: port %s may have %d windows in its "+
			"cycle of %d ns, with %d streams; must be at most %d: use longer intervals, or intervals that divide each other", s.jobs[shortest].Name,
			s.jobs[shortest].intervalNs, s.jobs[longest].Name, s.jobs[longest].intervalNs, port, windows, cycleNs, len(uses), maxWindows)
	case busyNs > cycleNs:
		return fault(fmt.Sprintf("streams[%d].interval", always[len(always)-1]), "port %s would be used more than 100 %% of the time by %d streams (%s): raise "+
			"intervals, send smaller frames, or move streams to other links", port, len(always), s.names(always))
	case slices.Max(queuedNs[:]) > cycleNs:
		return fault(fmt.Sprintf("streams[%d].interval", always[len(always)-1]), "port %s has streams of a class (of %s) whose frames, which may arrive early, "+
			"would be in its queue for more than 100 %% of the time: raise intervals, use several classes, or give min-frame-size of the streams and "+
			"min-delay of the bridges", port, s.names(always))
	}
	return nil
}

func (s *solver) names(streams []int) string {
	var names []string
	for _, i := range streams {
		if len(names) == 5 {
			names = append(names, "...")
			break
		}
		names = append(names, s.jobs[i].Name)
	}
	return strings.Join(names, ", ")
}

// lcm returns 0 if the least common multiple exceeds a limit.
func lcm(a, b, limit int64) int64 {
	b /= gcd(a, b)
	if b > limit/a {
		return 0
	}
	return a * b
}

// keep gives streams of a running plan their place if they are unchanged: the same interval, class, path and wire times, within the bounds of
// the input. It fails if a changed topology or base time does not allow that place.
func (s *solver) keep(ctx context.Context, running *Plan, base control.PTPTime) error {
	at := running.BaseTime
	if at.Nanoseconds >= 1e9 || at.Seconds > maxBaseTimeSeconds {
		return fault("base-time", "of the running plan is %d s and %d ns, which is no time", at.Seconds, at.Nanoseconds)
	}
	shiftNs := (int64(base.Seconds)-int64(at.Seconds))*1e9 + int64(base.Nanoseconds) - int64(at.Nanoseconds)
	byName := map[string]*Assignment{}
	for i := range running.Streams {
		byName[running.Streams[i].Name] = &running.Streams[i]
	}
	for i := range s.jobs {
		j := &s.jobs[i]
		if ctx.Err() != nil {
			return s.noPlace(i, "the time limit was over before the running streams had their places")
		}
		a := byName[j.Name]
		if a == nil || a.Interval.Nanoseconds() != j.intervalNs || a.TrafficClass != j.class || !j.allows(a) {
			continue
		}
		p := s.placementOf(j, a)
		if p == nil {
			continue
		}
		if shiftNs%j.intervalNs != 0 {
			return fault("base-time", "is %d s and %d ns, and that of the running plan %d s and %d ns: the difference is no multiple of the interval of "+
				"stream %s, %d ns, so its frames would move; give the base-time of the running plan", base.Seconds, base.Nanoseconds, at.Seconds,
				at.Nanoseconds, j.Name, j.intervalNs)
		}
		for _, starts := range p.starts {
			if port, reason := s.misfit(i, p.route, starts); reason != "" {
				return fault(fmt.Sprintf("streams[%d]", i), "stream %s of the running plan no longer fits at port %s: %s; undo the change of the topology, "+
					"or plan without --running, which moves running streams", j.Name, s.ports[port].name, reason)
			}
			s.enterFrame(i, p.route, starts)
		}
		j.placed, j.fixed = p, true
	}
	return nil
}

// allows reports whether an assignment is within the stream's own bounds.
func (j *job) allows(a *Assignment) bool {
	last := int64(-1)
	for _, frame := range a.Frames {
		if frame.TransmitOffsetNs < j.EarliestNs || frame.TransmitOffsetNs > j.latestNs() || frame.TransmitOffsetNs <= last {
			return false
		}
		last = frame.TransmitOffsetNs
	}
	return len(a.Frames) == j.MaxFramesPerInterval && a.WorstCaseLatencyNs <= j.MaxLatencyNs
}

// misfit returns the first port at which a running frame has no place, and the reason; it is empty if the frame fits.
func (s *solver) misfit(i int, r *route, starts []int64) (port int, reason string) {
	j := &s.jobs[i]
	for k := range r.hops {
		h := &r.hops[k]
		waitNs := starts[k] - s.plannedArrivalNs(r, k, starts)
		switch {
		case waitNs < 0:
			return h.port, fmt.Sprintf("its frames arrive up to %d ns after their window begins", -waitNs)
		case starts[k]%s.GranularityNs != 0:
			return h.port, fmt.Sprintf("its window begins at %d ns, no multiple of topology.tick-granularity, %d ns", starts[k], s.GranularityNs)
		case waitNs >= s.GranularityNs && !j.queueing:
			return h.port, fmt.Sprintf("its frames would wait for %d ns, and topology.queueing-classes does not have class %d", waitNs, j.class)
		case waitNs > j.intervalNs-h.occupyNs-h.earlyNs:
			return h.port, "its frames need the port for longer than the interval"
		case starts[k]-starts[0] > h.deltaNs+j.MaxLatencyNs-r.latencyNs:
			return h.port, fmt.Sprintf("its frames would exceed max-latency, %d ns", j.MaxLatencyNs)
		}
		s.clashes(i, h, starts[k]-waitNs-h.earlyNs, starts[k], func(other *slot, _ int64) bool {
			reason = "its window, or its time in the queue, overlaps with that of stream " + s.jobs[other.stream].Name
			if other.stream == i {
				reason = "windows of its own frames, or their times in the queue, overlap"
			}
			return false
		})
		if reason != "" {
			return h.port, reason
		}
	}
	return 0, ""
}

// placementOf returns nil if the assignment has another route than those of the stream.
func (s *solver) placementOf(j *job, a *Assignment) *placement {
	for k := range j.routes {
		p := &placement{route: &j.routes[k]}
		for _, frame := range a.Frames {
			var starts []int64
			for h, running := range frame.Hops {
				if len(frame.Hops) != len(p.route.hops) || running.Port != s.ports[p.route.hops[h].port].name || running.WireNs != p.route.hops[h].wireNs {
					break
				}
				starts = append(starts, running.StartNs)
			}
			if len(starts) == len(p.route.hops) {
				p.starts = append(p.starts, starts)
			}
		}
		if len(p.starts) == len(a.Frames) {
			return p
		}
	}
	return nil
}

// search places all streams: list scheduling, and Iterative Forward Search where a stream has no free place.
func (s *solver) search(ctx context.Context) error {
	var queue []int
	for i := range s.jobs {
		if !s.jobs[i].fixed {
			queue = append(queue, i)
		}
	}
	slices.SortStableFunc(queue, func(a, b int) int {
		x, y := &s.jobs[a], &s.jobs[b]
		return cmp.Or(cmp.Compare(x.intervalNs, y.intervalNs), cmp.Compare(len(x.routes), len(y.routes)),
			cmp.Compare(len(y.routes[0].hops), len(x.routes[0].hops)), cmp.Compare(x.MaxLatencyNs-x.routes[0].latencyNs, y.MaxLatencyNs-y.routes[0].latencyNs))
	})
	repairs := 100_000 + 100*len(queue)
	for ; len(queue) > 0; queue = queue[1:] {
		i := queue[0]
		if ctx.Err() != nil {
			return s.noPlace(i, "none was found before the time limit")
		}
		if p := s.freePlace(i); p != nil {
			s.enter(i, p)
			continue
		}
		p, displaced := s.cheapestPlace(i)
		switch {
		case p == nil:
			return s.noPlace(i, "running streams leave no window that fits")
		case repairs == 0:
			return s.noPlace(i, "none was found before the time limit")
		}
		repairs--
		s.jobs[i].weight++
		for _, other := range displaced {
			s.leave(other)
			queue = append(queue, other)
		}
		s.enter(i, p)
	}
	return nil
}

func (s *solver) noPlace(i int, reason string) error {
	j := &s.jobs[i]
	e := &NoPlaceError{Stream: j.Name, Port: s.ports[j.routes[0].hops[0].port].name, Reason: reason}
	busy := make([]float64, len(s.ports))
	for k := range s.jobs {
		if k == i {
			continue
		}
		for _, h := range s.jobs[k].routes[0].hops {
			usedNs := h.occupyNs
			if s.jobs[k].class == j.class {
				usedNs += h.queueNs
			}
			busy[h.port] += float64(usedNs*int64(s.jobs[k].MaxFramesPerInterval)) / float64(s.jobs[k].intervalNs)
		}
	}
	for _, h := range j.routes[0].hops {
		if percent := int64(100 * busy[h.port]); percent >= e.BusyPercent {
			e.BusyPercent, e.Port = percent, s.ports[h.port].name
		}
	}
	return e
}

// enter writes a placement into the timelines.
func (s *solver) enter(i int, p *placement) {
	s.jobs[i].placed = p
	for _, starts := range p.starts {
		s.enterFrame(i, p.route, starts)
	}
}

func (s *solver) enterFrame(i int, r *route, starts []int64) {
	j := &s.jobs[i]
	for k := range r.hops {
		h := &r.hops[k]
		endNs := starts[k] + h.occupyNs
		for key, t := range s.queues[h.port] {
			if key.class == j.class {
				t.add(slot{s.plannedArrivalNs(r, k, starts) - h.earlyNs, endNs, i}, j.intervalNs)
			}
		}
		for _, t := range s.windows[h.port] {
			t.add(slot{starts[k], endNs, i}, j.intervalNs)
		}
	}
}

// plannedArrivalNs returns when a frame of the largest size is in the queue of a hop, by the slowest way; at the talker it is the start.
func (s *solver) plannedArrivalNs(r *route, k int, starts []int64) int64 {
	previous := r.hops[k].previous
	if previous < 0 {
		return starts[k]
	}
	return s.arrivalNs(&r.hops[previous], starts[previous])
}

// leave removes a stream from the timelines.
func (s *solver) leave(i int) {
	for k := range s.jobs[i].routes {
		for _, h := range s.jobs[i].routes[k].hops {
			for key, t := range s.queues[h.port] {
				if key.class == s.jobs[i].class {
					t.remove(i)
				}
			}
			for _, t := range s.windows[h.port] {
				t.remove(i)
			}
		}
	}
	s.jobs[i].placed = nil
}

// clashes calls visit for the slots that forbid a window and the time in the queue before it, until it returns false.
func (s *solver) clashes(i int, h *hop, fromNs, startNs int64, visit func(t *slot, moveNs int64) bool) {
	j := &s.jobs[i]
	ended := false
	s.queues[h.port][queueKey{j.intervalNs, j.class}].overlaps(fromNs, startNs+h.occupyNs-fromNs, func(other *slot, moveNs int64) bool {
		ended = !visit(other, moveNs)
		return !ended
	})
	if !ended {
		s.windowClashes(i, h, startNs, visit)
	}
}

// windowClashes calls visit for the windows of other classes that forbid a window.
func (s *solver) windowClashes(i int, h *hop, startNs int64, visit func(t *slot, moveNs int64) bool) {
	j := &s.jobs[i]
	if t := s.windows[h.port][j.intervalNs]; t != nil {
		t.overlaps(startNs, h.occupyNs, func(other *slot, moveNs int64) bool {
			return s.jobs[other.stream].class == j.class || visit(other, moveNs)
		})
	}
}

// moveNs returns by how much a frame must move to pass the first slot that forbids its window, 0 if there is none.
func (s *solver) moveNs(i int, h *hop, fromNs, startNs int64) (moveNs int64) {
	s.clashes(i, h, fromNs, startNs, func(_ *slot, by int64) bool {
		moveNs = by
		return false
	})
	return moveNs
}

// freePlace finds the first place, over the shortest route that has any; nil if there is none.
func (s *solver) freePlace(i int) *placement {
	j := &s.jobs[i]
	for k := range j.routes {
		p := &placement{route: &j.routes[k]}
		for fromNs := j.EarliestNs; len(p.starts) < j.MaxFramesPerInterval; {
			starts := s.freeFrame(i, p.route, fromNs)
			if starts == nil {
				break
			}
			p.starts = append(p.starts, starts)
			if fromNs = starts[0] + p.route.hops[0].occupyNs; len(p.starts) < j.MaxFramesPerInterval {
				s.enterFrame(i, p.route, starts)
			}
		}
		if j.MaxFramesPerInterval > 1 {
			s.leave(i) // the frames that were entered one by one
		}
		if len(p.starts) == j.MaxFramesPerInterval {
			return p
		}
	}
	return nil
}

// latestNs returns the last transmit offset of a stream.
func (j *job) latestNs() int64 {
	if j.LatestNs > 0 {
		return min(j.LatestNs, j.intervalNs-1)
	}
	return j.intervalNs - 1
}

// freeFrame finds the first free starts of a frame: without waiting, or with if the class may.
func (s *solver) freeFrame(i int, r *route, fromNs int64) []int64 {
	j := &s.jobs[i]
	for x := roundUp(fromNs, s.GranularityNs); x <= j.latestNs(); {
		move := int64(0)
		clash := 0
		for ; clash < len(r.hops) && move == 0; clash++ {
			startNs := x + r.hops[clash].deltaNs
			move = s.moveNs(i, &r.hops[clash], startNs-r.hops[clash].queueNs, startNs)
		}
		if move == 0 {
			starts := make([]int64, len(r.hops))
			for k := range r.hops {
				starts[k] = x + r.hops[k].deltaNs
			}
			return starts
		}
		if j.queueing && clash > 1 {
			if starts := s.waitingFrame(i, r, x); starts != nil {
				return starts
			}
		}
		x = roundUp(x+move, s.GranularityNs)
	}
	return nil
}

// waitingFrame gives each hop of a frame the first window after its arrival; nil if the latency or another frame in the queue forbids it.
func (s *solver) waitingFrame(i int, r *route, x int64) []int64 {
	slackNs := s.jobs[i].MaxLatencyNs - r.latencyNs
	starts := make([]int64, len(r.hops))
	for k := range r.hops {
		h := &r.hops[k]
		starts[k] = x
		arrivalNs := s.plannedArrivalNs(r, k, starts)
		start := roundUp(arrivalNs, s.GranularityNs)
		for move := int64(1); move > 0; start = roundUp(start+move, s.GranularityNs) {
			if start > x+h.deltaNs+slackNs || start-arrivalNs+h.earlyNs+h.occupyNs >= s.jobs[i].intervalNs {
				return nil
			}
			move = 0
			s.windowClashes(i, h, start, func(_ *slot, by int64) bool {
				move = by
				return false
			})
		}
		if k == 0 && start > x || s.moveNs(i, h, arrivalNs-h.earlyNs, start) > 0 {
			return nil
		}
		starts[k] = start
	}
	return starts
}

const fixedWeight = 1 << 40

// cheapestPlace finds the place without waiting whose conflicting streams have the least weight, and these streams; nil if running streams
// are in the way everywhere.
func (s *solver) cheapestPlace(i int) (best *placement, displaced []int) {
	j := &s.jobs[i]
	bestCost := fixedWeight
	for k := range j.routes {
		p, streams := &placement{route: &j.routes[k]}, []int{}
		for fromNs := j.EarliestNs; len(p.starts) < j.MaxFramesPerInterval; {
			x := s.cheapestOffset(i, p.route, fromNs)
			if x < 0 {
				break
			}
			starts := make([]int64, len(p.route.hops))
			for h := range p.route.hops {
				hop := &p.route.hops[h]
				starts[h] = x + hop.deltaNs
				s.clashes(i, hop, starts[h]-hop.queueNs, starts[h], func(other *slot, _ int64) bool {
					if !slices.Contains(streams, other.stream) {
						streams = append(streams, other.stream)
					}
					return true
				})
			}
			p.starts = append(p.starts, starts)
			if fromNs = x + p.route.hops[0].occupyNs; len(p.starts) < j.MaxFramesPerInterval {
				s.enterFrame(i, p.route, starts)
			}
		}
		if j.MaxFramesPerInterval > 1 {
			s.leave(i)
		}
		cost := 0
		for _, other := range streams {
			if cost += s.jobs[other].weight; s.jobs[other].fixed || other == i {
				cost = fixedWeight
			}
		}
		if len(p.starts) == j.MaxFramesPerInterval && cost < bestCost {
			best, displaced, bestCost = p, streams, cost
		}
	}
	return best, displaced
}

// cheapestOffset sweeps over all transmit offsets: each slot on the way forbids a range of them, and costs the weight of its stream.
func (s *solver) cheapestOffset(i int, r *route, fromNs int64) int64 {
	type edge struct {
		atNs int64
		cost int
	}
	j := &s.jobs[i]
	var edges []edge
	cost := 0                                        // at offset 0
	forbid := func(other slot, fromNs, toNs int64) { // of a frame with offset 0
		weight := s.jobs[other.stream].weight
		if s.jobs[other.stream].fixed || other.stream == i {
			weight = fixedWeight
		}
		// Offsets after first and before last make the times overlap.
		first, last := other.startNs-toNs, other.endNs-fromNs
		if last-first > j.intervalNs {
			cost += weight
			return
		}
		first, last = modulo(first+1, j.intervalNs), modulo(last, j.intervalNs)
		if last < first {
			cost += weight
		}
		edges = append(edges, edge{first, weight}, edge{last, -weight})
	}
	for k := range r.hops {
		h := &r.hops[k]
		for _, other := range s.queues[h.port][queueKey{j.intervalNs, j.class}].slots {
			forbid(other, h.deltaNs-h.queueNs, h.deltaNs+h.occupyNs)
		}
		if t := s.windows[h.port][j.intervalNs]; t != nil {
			for _, other := range t.slots {
				if s.jobs[other.stream].class != j.class {
					forbid(other, h.deltaNs, h.deltaNs+h.occupyNs)
				}
			}
		}
	}
	fromNs = roundUp(fromNs, s.GranularityNs)
	edges = append(edges, edge{fromNs, 0})
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.atNs, b.atNs) })
	best, bestCost, ties := int64(-1), fixedWeight, 0
	for k, e := range edges {
		cost += e.cost
		at := roundUp(e.atNs, s.GranularityNs)
		nextNs := j.intervalNs
		if k+1 < len(edges) {
			nextNs = edges[k+1].atNs
		}
		if at >= nextNs || at < fromNs || at > j.latestNs() || cost > bestCost {
			continue
		}
		if cost < bestCost {
			ties = 0
		}
		if ties++; s.random.IntN(ties) == 0 {
			best, bestCost = at, cost
		}
	}
	return best
}

func modulo(value, divisor int64) int64 { return ((value % divisor) + divisor) % divisor }
