// SPDX-License-Identifier: Apache-2.0

// Package kubernetes compares what the chart gives to Kubernetes with the API that each supported version publishes.
//
// testdata/openapi.json has what counts of the versions' descriptions; scripts/openapi makes it. A field, kind, version or resource
// that one of the versions does not know fails the test, and so does a function of CEL that is younger than the oldest version.
// What a version has and does not serve by default (an alpha feature) no description tells.
package kubernetes
