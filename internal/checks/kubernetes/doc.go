// SPDX-License-Identifier: Apache-2.0

// Package kubernetes compares the chart's manifests with the API that each supported Kubernetes version publishes.
//
// scripts/openapi writes testdata/openapi.json from the versions' API descriptions. The tests fail for a field, kind, version or
// resource that one of the versions lacks, and for a CEL function that is newer than the oldest version. The descriptions do not
// tell which features a version has but does not serve by default (alpha features), so these are not checked.
package kubernetes
