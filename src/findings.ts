/** A fault of an installation, as `chatelaine doctor` reports it. It never contains a secret or an address with one. */
export type Diagnosis = {
  /** stable: scripts may compare it */
  code: string
  severity: 'error' | 'warning'
  /** one sentence: what is wrong */
  problem: string
  /** one sentence: what to do */
  action: string
}

/** Returns the exit code: 0 without findings, 1 with warnings only, 2 with errors. */
export const exitCodeOf = (findings: readonly Diagnosis[]): 0 | 1 | 2 =>
  findings.length === 0 ? 0 : findings.some(({ severity }) => severity === 'error') ? 2 : 1

/** Formats findings as text, errors first. */
export function textOf(findings: readonly Diagnosis[]): string {
  if (findings.length === 0) return 'No problems were found.'
  const sorted = findings.toSorted((one, other) => one.severity.localeCompare(other.severity))
  return sorted
    .map(({ code, severity, problem, action }) => `${severity}  ${code}\n  ${problem}\n  ${action}`)
    .join('\n\n')
}
