/* How a question was read: names of the data stand in backticks. */
export const ReadingText = ({ text }: { text: string }) => <>{text.split('`').map((part, i) => (i % 2 ? <code dir="auto">{part}</code> : part))}</>;
