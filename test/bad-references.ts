/** Values that no write takes as its reference, and the code of their field error. */
export const BAD_REFERENCES: readonly (readonly [unknown, string])[] = [
  ['', 'minLength'],
  ['x'.repeat(256), 'maxLength'],
  ['😀'.repeat(256), 'maxLength'],
  ['a\nb', 'pattern'],
  ['\0', 'pattern'],
  ['\u007f', 'pattern'],
  ['\u0085', 'pattern'],
  ['\ud83d', 'pattern'],
  ['a\ude00b', 'pattern'],
  [7, 'type'],
  [null, 'type'],
]
