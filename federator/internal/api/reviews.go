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

// Anybody who reaches the federator can send any token, and only the hub can review it. These limits keep such requests
// from overloading the hub.
const (
	// maxToken is the longest accepted token in bytes.
	maxToken = 16 << 10
	// goodTTL and badTTL are how long a review is cached. The API server itself caches good tokens for 10 s.
	goodTTL = 5 * time.Second
	badTTL  = 5 * time.Second
	// maxTokens limits the cached good tokens and the cached bad tokens, maxSources the cached addresses.
	maxTokens  = 4096
	maxSources = 4096
	// Limits for reviews of tokens that have not been good before: per source address, and in total.
	sourceReviewsPerSecond = 10
	sourceReviewBurst      = 50
	reviewsPerSecond       = 50
	reviewBurst            = 100
	// Limits for concurrent reviews at the hub: of tokens that have been good before, and of others.
	maxKnownReviews   = 16
	maxUnknownReviews = 4
	// slotTimeout limits how long a request waits for a slot, reviewTimeout how long the hub may take to answer.
	slotTimeout   = time.Second
	reviewTimeout = 10 * time.Second
	// retryAfter is sent to clients that exceed a limit.
	retryAfter = time.Second
	// sourceBits is the length of the IPv6 prefix that counts as one client.
	sourceBits = 64
)

// tokenForm matches bearer tokens (RFC 6750, section 2.1).
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// tokenSum is the SHA-256 of a token. Tokens themselves are not stored.
type tokenSum [sha256.Size]byte

// verdict is the hub's review of a token.
type verdict struct {
	user  *authenticationv1.UserInfo
	err   error
	until time.Time
}

// reviews authenticates tokens. It caches the hub's reviews and limits how often unknown clients can cause one. Clients
// whose token was good before share neither rate limit nor slots with unknown clients. It is safe for concurrent use.
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
		all: rate.NewLimiter(reviewsPerSecond, reviewBurst), known: make(chan struct{}, maxKnownReviews), unknown: make(chan struct{}, maxUnknownReviews),
	}
}

// review returns the user of a token. source is an address with a port.
func (r *reviews) review(ctx context.Context, token, source string) (*authenticationv1.UserInfo, error) {
	if len(token) > maxToken || !tokenForm.MatchString(token) {
		return nil, hub.Faultf(http.StatusUnauthorized, "the bearer token of the request is malformed")
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
	release, err := acquire(ctx, turns)
	if err != nil {
		return nil, err
	}
	defer release()
	return r.query(ctx, token, sum)
}

func (r *reviews) remembered(from *lru.Cache, sum tokenSum) (verdict, bool) {
	value, ok := from.Get(sum)
	if !ok {
		return verdict{}, false
	}
	return value.(verdict), true
}

// admit applies the rate limits to tokens that have not been good before.
func (r *reviews) admit(source string, now time.Time) error {
	if !r.limiterOf(source).AllowN(now, 1) {
		return hub.Faultf(http.StatusTooManyRequests, "too many tokens that the federator does not know come from this address; ask again in %v", retryAfter)
	}
	if !r.all.AllowN(now, 1) {
		return errBusy
	}
	return nil
}

var errBusy = hub.Faultf(http.StatusTooManyRequests, "the federator reviews too many tokens at the moment; ask again in %v", retryAfter)

// limiterOf returns the rate limiter of an address. Two concurrent first requests may each get their own, which does no
// harm.
func (r *reviews) limiterOf(source string) *rate.Limiter {
	key := netip.Addr{} // shared by all addresses that cannot be parsed
	if parsed, err := netip.ParseAddrPort(source); err == nil {
		key = parsed.Addr().Unmap().WithZone("")
		if key.Is6() {
			prefix, _ := key.Prefix(sourceBits) // sourceBits is in range
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

// acquire waits for a slot. The caller must call release.
func acquire(ctx context.Context, turns chan struct{}) (release func(), err error) {
	timer := time.NewTimer(slotTimeout)
	defer timer.Stop()
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, errBusy
	}
}

// query asks the hub to review a token and caches the result. Errors of the connection are not cached.
func (r *reviews) query(ctx context.Context, token string, sum tokenSum) (*authenticationv1.UserInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	user, err := r.reviewer.Review(ctx, token)
	var fault *hub.Fault
	switch {
	case err == nil:
		r.good.Add(sum, verdict{user: user, until: r.now().Add(goodTTL)})
	case errors.As(err, &fault) && fault.Status == http.StatusUnauthorized:
		r.good.Remove(sum)
		// The hub may learn of a new bootstrap token later.
		if !bootstrapToken.MatchString(token) {
			r.bad.Add(sum, verdict{err: err, until: r.now().Add(badTTL)})
		}
	}
	return user, err
}
