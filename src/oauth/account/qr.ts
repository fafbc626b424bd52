import { encode } from 'uqr'

/** §6.3.8 of ISO/IEC 18004: modules of light around the code */
const QUIET = 4

/**
 * An SVG drawing of a QR code with its quiet zone, error correction level M; black on white in every colour scheme,
 * because readers want that. Drawn here: the library's own SVG has neither a name nor crisp edges.
 */
export function qrSvg(text: string, label: string): string {
  const { data, size } = encode(text, { ecc: 'M', border: QUIET })
  const path = data.flatMap((row, y) => row.flatMap((dark, x) => (dark ? [`M${x} ${y}h1v1h-1z`] : []))).join('')
  const escaped = label.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
  return `<svg class="qr" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size} ${size}" role="img" aria-label="${escaped}" shape-rendering="crispEdges"><rect width="${size}" height="${size}" fill="#fff"/><path d="${path}" fill="#000"/></svg>`
}
