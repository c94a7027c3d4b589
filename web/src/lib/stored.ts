// localStorage, for choices of the reader.
export function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // storage is blocked: the choice lasts as long as the page
  }
}

export function store(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // as above
  }
}
