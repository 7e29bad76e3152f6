// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/netip"
	"regexp"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/utils/lru"

	"github.com/kubernetsn/kubernetsn/federator/internal/hub"
)

// Whoever reaches the federator can send any token, and only the hub knows whether it is good. These limits keep such requests from making the hub busy.
const (
	// maxToken is the longest token in bytes.
	maxToken = 16 << 10
	// goodFor and badFor are for how long an answer of the hub counts. The API server itself remembers good tokens for 10 s.
	goodFor = 5 * time.Second
	badFor  = 5 * time.Second
	// maxTokens is how many good and how many bad tokens are remembered, and maxSources how many addresses.
	maxTokens  = 4096
	maxSources = 4096
	// Reviews of tokens that have not been good before: of one source address, and in all.
	sourceReviewsPerSecond = 10
	sourceReviewBurst      = 50
	reviewsPerSecond       = 50
	reviewBurst            = 100
	// How many reviews may wait for the hub at once: of tokens that have been good before, and of others.
	knownAtOnce   = 16
	unknownAtOnce = 4
	// slotPatience is for how long a request waits to be one of these, and reviewTimeout bounds the answer of the hub.
	slotPatience  = time.Second
	reviewTimeout = 10 * time.Second
	// retryAfter is what who asks too often is told to wait.
	retryAfter = time.Second
	// sourceBits is the length of the prefix that one client has of IPv6.
	sourceBits = 64
)

// tokenForm is the form of bearer tokens (RFC 6750, section 2.1).
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// tokenSum is the SHA-256 of a token. Tokens themselves are not kept.
type tokenSum [sha256.Size]byte

// verdict is what the hub said of a token.
type verdict struct {
	user  *authenticationv1.UserInfo
	err   error
	until time.Time
}

// reviews finds out whose tokens are, asks the hub as seldom as it can, and limits how often strangers have it asked. A client whose token was good before
// shares neither limit nor turn with them. It may be used by many requests at once.
type reviews struct {
	reviewer       Reviewer
	now            func() time.Time
	good, bad      *lru.Cache // tokenSum to verdict; a good one that is too old still tells that the token was good
	sources        *lru.Cache // netip.Addr to *rate.Limiter
	all            *rate.Limiter
	known, unknown chan struct{}
}

func newReviews(reviewer Reviewer, now func() time.Time) *reviews {
	return &reviews{
		reviewer: reviewer, now: now, good: lru.New(maxTokens), bad: lru.New(maxTokens), sources: lru.New(maxSources),
		all: rate.NewLimiter(reviewsPerSecond, reviewBurst), known: make(chan struct{}, knownAtOnce), unknown: make(chan struct{}, unknownAtOnce),
	}
}

// review returns whose a token is. The source is an address with a port.
func (r *reviews) review(ctx context.Context, token, source string) (*authenticationv1.UserInfo, error) {
	if len(token) > maxToken || !tokenForm.MatchString(token) {
		return nil, hub.Faultf(http.StatusUnauthorized, "what the request has is not the form of a bearer token")
	}
	sum, now := tokenSum(sha256.Sum256([]byte(token))), r.now()
	if last, ok := r.remembered(r.bad, sum); ok && now.Before(last.until) {
		return nil, last.err
	}
	last, wasGood := r.remembered(r.good, sum)
	if wasGood && now.Before(last.until) {
		return last.user, nil
	}
	turns := r.known
	if !wasGood {
		if err := r.admit(source, now); err != nil {
			return nil, err
		}
		turns = r.unknown
	}
	release, err := take(ctx, turns)
	if err != nil {
		return nil, err
	}
	defer release()
	return r.ask(ctx, token, sum)
}

func (r *reviews) remembered(from *lru.Cache, sum tokenSum) (verdict, bool) {
	value, ok := from.Get(sum)
	if !ok {
		return verdict{}, false
	}
	return value.(verdict), true
}

// admit limits reviews of tokens that have not been good before.
func (r *reviews) admit(source string, now time.Time) error {
	if !r.ofSource(source).AllowN(now, 1) {
		return hub.Faultf(http.StatusTooManyRequests, "too many tokens that the federator does not know come from this address; ask again in %v", retryAfter)
	}
	if !r.all.AllowN(now, 1) {
		return errBusy
	}
	return nil
}

var errBusy = hub.Faultf(http.StatusTooManyRequests, "the federator reviews too many tokens at the moment; ask again in %v", retryAfter)

// ofSource returns the limit of an address. Two requests that come first at once may get one each, which does no harm.
func (r *reviews) ofSource(source string) *rate.Limiter {
	key := netip.Addr{} // of addresses that cannot be parsed, together
	if parsed, err := netip.ParseAddrPort(source); err == nil {
		key = parsed.Addr().Unmap().WithZone("")
		if key.Is6() {
			prefix, _ := key.Prefix(sourceBits) // which is in range
			key = prefix.Addr()
		}
	}
	if limit, ok := r.sources.Get(key); ok {
		return limit.(*rate.Limiter)
	}
	limit := rate.NewLimiter(sourceReviewsPerSecond, sourceReviewBurst)
	r.sources.Add(key, limit)
	return limit
}

// take waits for a turn. The caller gives it back.
func take(ctx context.Context, turns chan struct{}) (release func(), err error) {
	patience := time.NewTimer(slotPatience)
	defer patience.Stop()
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-patience.C:
		return nil, errBusy
	}
}

// ask asks the hub and remembers what it says. That it does not answer is not remembered.
func (r *reviews) ask(ctx context.Context, token string, sum tokenSum) (*authenticationv1.UserInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	user, err := r.reviewer.Review(ctx, token)
	var fault *hub.Fault
	switch {
	case err == nil:
		r.good.Add(sum, verdict{user: user, until: r.now().Add(goodFor)})
	case errors.As(err, &fault) && fault.Status == http.StatusUnauthorized:
		r.good.Remove(sum)
		// The hub learns of new bootstrap tokens a moment later.
		if !bootstrapToken.MatchString(token) {
			r.bad.Add(sum, verdict{err: err, until: r.now().Add(badFor)})
		}
	}
	return user, err
}
